import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  blockRule,
  bucketRule,
  budgetRule,
  bundle,
  concurrencyRule,
  llmRule,
  matching,
  type PolicyText,
  policy,
  rateRule,
  windowRule,
} from '../../support/bundles/bundles.ts'
import { tested } from '../../support/cases/tested.ts'
import { scratchDirectory } from '../../support/service/running.ts'

interface StepText {
  readonly after?: string
  readonly request?: object
  readonly times?: number
  readonly usage?: object
  readonly expect: object
}

/** All steps hold. The request of each is a GET of `/` unless it says otherwise. */
async function expectHolds(
  policies: PolicyText | object,
  steps: readonly StepText[],
  { at, flags = [] }: { at?: string; flags?: string[] } = {},
) {
  const whole = 'id' in policies ? bundle(1, policies as PolicyText) : policies
  const cases = [{ name: 'it', ...(at && { at }), steps: steps.map((step) => ({ ...step, request: { uri: '/', ...step.request } })) }]
  const { status, stdout, stderr } = await tested(whole, cases, ...flags)
  expect({ status, shown: status === 0 ? '' : `${stdout}${stderr}` }).toEqual({ status: 0, shown: '' })
}

function setting(name: string, value: string): void {
  vi.stubEnv(name, value)
  onTestFinished(() => void vi.unstubAllEnvs())
}

const PROXY = { flags: ['--mode', 'reverse_proxy'] }

describe('requests of a case do not wait', () => {
  const waiting = policy('p', { rules: [{ ...bucketRule('r', [], 1, 0.5), wait_seconds: 2 }] })

  test('but waits says whether they would in reverse_proxy', () =>
    expectHolds(
      waiting,
      [
        { expect: { status: 200, waits: false } },
        { expect: { status: 429, waits: true } },
        { after: '2s', expect: { status: 200 } },
        { expect: { status: 429, waits: true } },
      ],
      PROXY,
    ))

  test('and would not in decision_service', () => expectHolds(waiting, [{ times: 2, expect: { status: [200, 429], waits: false } }]))

  test('and a failure says so', async () => {
    const steps = [{ request: { uri: '/' }, times: 2, expect: { status: 200 } }]
    const { stdout } = await tested(bundle(1, waiting), [{ name: 'it', steps }], ...PROXY.flags)
    expect(stdout).toContain('In reverse_proxy it waits for up to 2 s before that; requests of a case do not wait.')
    const wrong = [{ request: { uri: '/' }, expect: { waits: true } }]
    expect((await tested(bundle(1, waiting), [{ name: 'it', steps: wrong }], ...PROXY.flags)).stdout).toMatch(
      /waits +expected true, got false/,
    )
  })
})

describe('calendars follow the clock of the case', () => {
  const daily = policy('p', { rules: [windowRule('r', [], { limit: 1, period: '1d', timezone: 'Europe/Berlin' })] })

  test('a day of 23 hours, when summer time begins', () =>
    expectHolds(
      daily,
      [
        { expect: { status: 200 } },
        { after: '82740s', expect: { status: 429, reason: 'quota_exceeded', headers: { 'Retry-After': 60 } } },
        { after: '60s', expect: { status: 200 } },
      ],
      { at: '2026-03-28T23:00:00Z' },
    ))

  test('a day of 25 hours, when it ends', () =>
    expectHolds(
      daily,
      [
        { expect: { status: 200 } },
        { after: '24h', expect: { status: 429, headers: { 'Retry-After': 3600 } } },
        { after: '1h', expect: { status: 200 } },
      ],
      { at: '2026-10-24T22:00:00Z' },
    ))

  test('months have their own lengths, and `at` may have an offset', () =>
    expectHolds(
      policy('p', { rules: [windowRule('r', [], { limit: 1, period: '1mo' })] }),
      [{ expect: { status: 200 } }, { after: '27d', expect: { status: 429 } }, { after: '1d', expect: { status: 200 } }],
      { at: '2026-02-01T02:00:00+02:00' },
    ))

  test('a block ends at its expires_at', () =>
    expectHolds(policy('p', { rules: [blockRule('r', undefined, { expires_at: '2026-01-01T00:00:10Z' })] }), [
      { after: '9999ms', expect: { status: 403, reason: 'blocked', policy: 'p', rule: 'r', headers: { 'x-should-retry': 'false' } } },
      { after: '1ms', expect: { status: 200, reason: 'all_rules_passed' } },
    ]))
})

describe('rules', () => {
  test('match, and else for the others', () => {
    const match = { 'header:x-plan': 'free*' }
    const plans = policy('p', { rules: [matching(match, bucketRule('free', [], 1)), matching('else', bucketRule('paid', [], 2))] })
    return expectHolds(plans, [
      { request: { headers: { 'x-plan': 'free-trial' } }, times: 2, expect: { status: [200, 429], rule: 'free' } },
      { request: { headers: { 'x-plan': 'gold' } }, times: 3, expect: { status: [200, 200, 429], rule: 'paid' } },
    ])
  })

  test('a shadow policy changes no response; what it would reject is expected by reason, policy and rule', () =>
    expectHolds(policy('p', { mode: 'shadow', rules: [bucketRule('r', [], 1)] }), [
      { expect: { status: 200, reason: 'all_rules_passed' } },
      {
        expect: {
          status: 200,
          reason: 'token_bucket_exceeded',
          policy: 'p',
          rule: 'r',
          headers: { 'RateLimit-Limit': null, 'Retry-After': null },
        },
      },
    ]))

  test('a rejected request takes nothing', () => {
    const both = policy('p', { rules: [bucketRule('small', [], 1, 0.001), bucketRule('large', ['header:x-k'], 3, 0.001)] })
    return expectHolds(both, [
      { request: { headers: { 'x-k': 'a' } }, times: 10, expect: { status: [200, ...Array(9).fill(429)], rule: 'small' } },
      { after: '1000s', request: { headers: { 'x-k': 'a' } }, expect: { status: 200, headers: { 'RateLimit-Remaining': 0 } } },
    ])
  })

  test.for(['1/hour', '9/hour', '3/day', '7/minute'])('%s: whole tokens after whole times, to the millisecond', async (rate) => {
    const [count, unit] = rate.split('/') as [string, string]
    const unitMs = { minute: 60_000, hour: 3_600_000, day: 86_400_000 }[unit]!
    const tokens = Number(count)
    const retryAfter = Math.ceil(unitMs / 1000 / tokens)
    await expectHolds(policy('p', { rules: [rateRule('r', [], { rate, burst: tokens })] }), [
      { times: tokens, expect: { status: 200, headers: { 'RateLimit-Reset': unitMs / 1000 } } },
      { expect: { status: 429, headers: { 'Retry-After': retryAfter } } },
      { after: `${unitMs}ms`, times: tokens, expect: { status: 200 } },
      { after: `${Math.ceil(unitMs / tokens) - 1}ms`, expect: { status: 429, headers: { 'Retry-After': 1 } } },
      { after: '1ms', times: 2, expect: { status: [200, 429] } },
    ])
  })

  test('costs in a header field', () =>
    expectHolds(policy('p', { rules: [rateRule('r', [], { tokens_per_second: 1, burst: 10, cost: { header: 'x-cost' } })] }), [
      { request: { headers: { 'x-cost': 7 } }, times: 2, expect: { status: [200, 429], headers: { 'Retry-After': 4 } } },
      { request: { headers: { 'x-cost': '11' } }, expect: { status: 429, headers: { 'x-should-retry': false } } },
    ]))

  test('requests in flight: for hold_seconds as a gateway asks, until the clock moves on in the proxy', async () => {
    const held = policy('p', { rules: [concurrencyRule('r', [], 2, 8)] })
    const together = { times: 3, expect: { status: [200, 200, 429], reason: 'concurrency_exceeded' } }
    await expectHolds(held, [together, { after: '5s', expect: { status: 429 } }, { after: '5s', ...together }])
    const request = { host: 'h' }
    await expectHolds(
      held,
      [
        { request, ...together },
        { request, after: '1ms', ...together },
      ],
      PROXY,
    )
  })

  test('a field that comes twice, and a host that is missing', () => {
    const hosts = policy('h', { selector: { hosts: ['a.test'] }, rules: [bucketRule('r', ['header:x-k'], 1)] })
    return expectHolds(hosts, [
      { request: { host: 'a.test', headers: { 'x-k': ['a', 'a'] } }, expect: { status: 400, reason: 'repeated_descriptor' } },
      { expect: { status: 400, reason: 'missing_original_host', headers: { 'X-Edge-Reason': 'missing_original_host' } } },
      { request: { host: 'b.test' }, expect: { status: 200 } },
      { request: { headers: { 'x-k': [1, true] }, host: 'a.test' }, expect: { status: 400, reason: 'repeated_descriptor' } },
      { request: { headers: { Host: 'a.test', 'x-k': true } }, expect: { status: 200 } },
      { request: { headers: { Host: 'a.test', 'x-k': 'true' } }, expect: { status: 429 } },
      { request: { headers: { Host: 'a.test', 'x-k': 'é' } }, times: 2, expect: { status: [200, 429] } },
    ])
  })
})

describe('tokens and money', () => {
  const chat = { method: 'POST', uri: '/v1/chat/completions', host: 'h', body: '{"model":"m","max_tokens":100,"prompt":"12345678"}' }
  const money = {
    ...bundle(1, policy('p', { rules: [budgetRule('r', [], { budget: 1, prices: 't', warn_at_percent: [50] })] })),
    prices: { t: { '*': { input: 1000, output: 5000 } } },
  }

  test('bodies are read in reverse_proxy alone', async () => {
    const tokens = policy('p', { rules: [llmRule('r', [], { tokens_per_minute: 200, max_completion_tokens: 150 })] })
    await expectHolds(tokens, [{ request: chat, times: 2, expect: { status: [200, 429], reason: 'tpm_exceeded' } }])
    await expectHolds(tokens, [{ request: chat, expect: { status: 200, headers: { 'RateLimit-Remaining': 98 } } }], PROXY)
  })

  test('a case with a body that is not read gets a note, where a rule would read it', async () => {
    const cases = [{ name: 'it', steps: [{ request: chat, expect: { status: 200 } }] }]
    const note = 'cases.yaml: note: bodies are not read in decision_service; --mode reverse_proxy reads them\n'
    const tokens = bundle(1, policy('p', { rules: [llmRule('r', [], { tokens_per_minute: 2000 })] }))
    expect(await tested(tokens, cases)).toMatchObject({ status: 0, stderr: note })
    expect(await tested(tokens, cases, ...PROXY.flags)).toMatchObject({ status: 0, stderr: '' })
    const plain = bundle(1, policy('p', { rules: [bucketRule('r', [], 1)] }))
    expect(await tested(plain, cases)).toMatchObject({ status: 0, stderr: '' })
  })

  test('without a usage the reservation stays; with one it is corrected when the clock moves on', async () => {
    // 2 prompt tokens at 0.001 and 100 of the answer at 0.005: 0.502
    const reserved = {
      request: chat,
      times: 2,
      expect: { status: [200, 429], reason: 'budget_exceeded', headers: { 'RateLimit-Limit': 100 } },
    }
    await expectHolds(money, [reserved, { after: '1h', request: chat, expect: { status: 429 } }], PROXY)
    const usage = { prompt_tokens: 100, completion_tokens: 10 }
    await expectHolds(
      money,
      [
        { ...reserved, usage },
        { after: '1ms', request: chat, expect: { status: 200, headers: { 'RateLimit-Remaining': 34 } } },
      ],
      PROXY,
    )
  })

  test('tokens count by their weights, of a request of Gemini too', async () => {
    const count = { cached_input: 0, cache_write: 2 }
    const tokens = policy('p', { rules: [llmRule('r', ['llm:model'], { tokens_per_day: 1000, count })] })
    const body = { contents: [{ parts: [{ text: 'hello there!' }] }], generationConfig: { maxOutputTokens: 10 } }
    const request = { method: 'POST', uri: '/v1beta/models/m:generateContent', body: JSON.stringify(body) }
    const usage = { prompt_tokens: 100, completion_tokens: 10, cached_tokens: 50, cache_write_tokens: 20, cache_write_1h_tokens: 5 }
    await expectHolds(
      tokens,
      [
        { request, usage, expect: { status: 200, headers: { 'RateLimit-Remaining': 1000 - (3 * 2 + 10) } } },
        { after: '1ms', request, expect: { status: 200, headers: { 'RateLimit-Remaining': 1000 - (30 + 20 * 2 + 10) - (3 * 2 + 10) } } },
      ],
      PROXY,
    )
  })

  test('a gateway settles, too: with a usage, or with what it cost', async () => {
    const given = policy('p', { rules: [budgetRule('r', [], { budget: 1, cost: { header: 'x-cost', default: 0.6 } })] })
    await expectHolds(given, [
      { times: 2, expect: { status: [200, 429] } },
      { after: '1s', expect: { status: 429 } },
    ])
    await expectHolds(given, [
      { times: 2, usage: { cost: 0.25 }, expect: { status: [200, 429] } },
      { after: '1s', expect: { status: 200, headers: { 'RateLimit-Remaining': 15 } } },
    ])
  })

  test('what gateways say about bodies counts with EDGE_GATEWAY_HINTS', async () => {
    const tokens = policy('p', { rules: [llmRule('r', ['llm:model'], { tokens_per_minute: 200, max_completion_tokens: 150 })] })
    const request = { method: 'POST', headers: { 'x-edge-model': 'm', 'x-edge-max-tokens': 50, 'x-edge-prompt-tokens': 10 } }
    await expectHolds(tokens, [{ request, expect: { status: 200, headers: { 'RateLimit-Limit': null } } }])
    setting('EDGE_GATEWAY_HINTS', 'on')
    await expectHolds(tokens, [{ request, expect: { status: 200, headers: { 'RateLimit-Remaining': 140 } } }])
  })

  test('what the proxy refuses', async () => {
    setting('EDGE_MAX_BODY_BYTES', '60')
    await expectHolds(
      money,
      [
        { request: { ...chat, body: '{"model":"a","model":"b"}' }, expect: { status: 400, reason: 'repeated_descriptor' } },
        { request: { ...chat, body: `{"prompt":"${'x'.repeat(60)}"}` }, expect: { status: 413, reason: 'body_too_large' } },
        {
          request: { ...chat, headers: { 'content-length': 'x' } },
          expect: { status: 400, reason: 'bad_request' },
        },
        { request: { ...chat, method: 'post' }, expect: { status: 400, reason: 'bad_request' } },
      ],
      PROXY,
    )
  })
})

describe('addresses', () => {
  test('X-Forwarded-For is read past the proxies of EDGE_TRUSTED_PROXIES', async () => {
    const byAddress = policy('p', { rules: [bucketRule('r', ['ip:address'], 1)] })
    const through = (proxy: string) => ({ headers: { 'x-forwarded-for': `203.0.113.1, ${proxy}` } })
    const steps = [{ request: through('198.51.100.1'), expect: { status: 200 } }]
    await expectHolds(byAddress, [...steps, { request: through('198.51.100.2'), expect: { status: 200 } }])
    setting('EDGE_TRUSTED_PROXIES', '198.51.100.0/24')
    await expectHolds(byAddress, [...steps, { request: through('198.51.100.2'), expect: { status: 429 } }])
  })

  test('countries come from the bundled database, types and Tor exits from the files that are set', async () => {
    const directory = await scratchDirectory()
    await writeFile(join(directory, 'types.csv'), '203.0.113.0/24,hosting\n')
    await writeFile(join(directory, 'tor.txt'), '203.0.113.9\n')
    setting('EDGE_IP_TYPE_FILE', join(directory, 'types.csv'))
    setting('EDGE_TOR_EXITS_FILE', join(directory, 'tor.txt'))
    const blocks = [
      blockRule('country', { 'ip:country': 'US' }),
      blockRule('tor', { 'ip:tor': 'true' }),
      blockRule('type', { 'ip:type': 'hosting' }),
    ]
    const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })
    await expectHolds(policy('p', { rules: blocks }), [
      { request: from('8.8.8.8'), expect: { status: 403, rule: 'country' } },
      { request: from('203.0.113.9'), expect: { status: 403, rule: 'tor' } },
      { request: from('203.0.113.1'), expect: { status: 403, rule: 'type' } },
      { request: from('192.0.2.1'), expect: { status: 200 } },
    ])
  })

  test('a file that cannot be read is a problem, not a missing fact', async () => {
    setting('EDGE_TOR_EXITS_FILE', '/nowhere/tor.txt')
    const said = await tested(
      bundle(1, policy('p', { rules: [blockRule('tor', { 'ip:tor': 'true' })] })),
      '[{ name: a, steps: [{ request: { uri: / }, expect: { status: 200 } }] }]',
    )
    expect(said).toMatchObject({ status: 1, stdout: '' })
    expect(said.stderr).toContain('edge test cannot start:\n  /nowhere/tor.txt: ')
  })
})

describe('claims of a case are sent as a token', () => {
  const by = (key: string): PolicyText => policy('p', { rules: [matching({ [key]: '*' }, bucketRule('r', [key], 1))] })

  test.for<[string, object, string]>([
    ['jwt:sub', { sub: 'ada' }, 'jwt:sub=ada'],
    ['jwt:sub', { sub: 'Zoë ☂' }, 'jwt:sub=Zoë ☂'],
    ['jwt:org.id', { org: { id: 7 } }, 'jwt:org.id=7'],
    ['jwt:admin', { admin: false, roles: ['a', null] }, 'jwt:admin=false'],
    ['jwt:sub', { sub: '12345678901234567890' }, 'jwt:sub=12345678901234567890'],
  ])('%s is read from %j', async ([key, claims, caller]) => {
    const request = { uri: '/', claims }
    await expectHolds(by(key), [{ request, times: 2, expect: { status: [200, 429], rule: 'r' } }])
    const wrong = [
      {
        name: 'it',
        steps: [
          { request, expect: { status: 200 } },
          { request, expect: { status: 200 } },
        ],
      },
    ]
    expect((await tested(bundle(1, by(key)), wrong)).stdout).toContain(`${caller} has 0 of 1 left`)
  })

  test('the token is the bearer of the request, and the same claims are the same caller, in both modes', async () => {
    const steps = [
      { request: { claims: { sub: 'ada' } }, expect: { status: 200 } },
      { request: { claims: { sub: 'bob' } }, expect: { status: 200 } },
      { request: { claims: { sub: 'ada' } }, expect: { status: 429 } },
      { request: { claims: {} }, expect: { status: 200 } },
    ]
    await expectHolds(by('bearer'), steps)
    await expectHolds(
      by('bearer'),
      steps.map((step) => ({ ...step, request: { ...step.request, host: 'h' } })),
      PROXY,
    )
  })
})
