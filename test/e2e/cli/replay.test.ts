import { describe, expect, test } from 'vitest'
import { LOG_WRITERS, type Logged } from '../../support/replay/log-writers.ts'
import { replayed, replaying } from '../../support/replay/replaying.ts'

const START = Date.parse('2026-01-01T00:00:00Z')

function bucket(key: string, burst: number, extra: object = {}): object {
  const config = { tokens_per_second: 0.1, burst }
  return { name: `by-${key.split(':')[1]}`, limit_keys: [key], algorithm: 'token_bucket', algorithm_config: config, ...extra }
}

function policy(id: string, rules: readonly object[], spec: object = {}): object {
  return { id, spec: { selector: { pathPrefix: '/api' }, rules, ...spec } }
}

/** So many requests of a caller at one moment. */
function requests(key: string, seconds: number, count: number): Logged[] {
  return Array.from({ length: count }, () => ({ timeMs: START + seconds * 1000, uri: '/api/x', headers: { 'x-k': key } }))
}

const A = [policy('api', [bucket('header:x-k', 5)])]
const B = [policy('api', [bucket('header:x-k', 3)])]
const LOG = [...requests('a', 0, 7), ...requests('b', 1, 4), ...requests('a', 20, 3), { timeMs: START + 30_000, uri: '/other' }]

describe('the report as JSON', () => {
  test('who would be rejected, when and by which rule', async () => {
    expect(await replayed({ 'a.json': A, log: LOG_WRITERS.json(LOG) }, ['--bundle', 'a.json', 'log'])).toEqual({
      requests: 15,
      unreadable: 0,
      from: '2026-01-01T00:00:00.000Z',
      to: '2026-01-01T00:00:30.000Z',
      bundles: [
        {
          file: 'a.json',
          bundle_version: '1',
          allowed: 12,
          rejected: 3,
          would_reject: 0,
          missing: {},
          rules: [
            {
              policy: 'api',
              rule: 'by-x-k',
              rejected: 3,
              would_reject: 0,
              first_at: '2026-01-01T00:00:00.000Z',
              last_at: '2026-01-01T00:00:20.000Z',
              callers: [{ values: { 'header:x-k': 'a' }, rejected: 3 }],
            },
          ],
        },
      ],
    })
  })

  test('with two bundles, what differs for whom', async () => {
    const report = await replayed({ 'a.json': A, 'b.json': B, log: LOG_WRITERS.json(LOG) }, [
      '--bundle',
      'a.json',
      '--bundle',
      'b.json',
      'log',
    ])
    expect(report.bundles.map(({ file, bundle_version, allowed, rejected }) => [file, bundle_version, allowed, rejected])).toEqual([
      ['a.json', '1', 12, 3],
      ['b.json', '2', 9, 6],
    ])
    expect(report.difference).toEqual({
      newly_rejected: 3,
      newly_allowed: 0,
      callers: [
        { policy: 'api', rule: 'by-x-k', values: { 'header:x-k': 'a' }, newly_rejected: 2, newly_allowed: 0 },
        { policy: 'api', rule: 'by-x-k', values: { 'header:x-k': 'b' }, newly_rejected: 1, newly_allowed: 0 },
      ],
    })
    const back = await replayed({ 'b.json': B, 'a.json': A, log: LOG_WRITERS.json(LOG) }, [
      '--bundle',
      'b.json',
      '--bundle',
      'a.json',
      'log',
    ])
    expect(back.difference).toMatchObject({ newly_rejected: 0, newly_allowed: 3 })
  })

  test('the same bundle twice makes no difference', async () => {
    const report = await replayed({ 'a.json': A, 'b.json': A, log: LOG_WRITERS.json(LOG) }, [
      '--bundle',
      'a.json',
      '--bundle',
      'b.json',
      'log',
    ])
    expect(report.difference).toEqual({ newly_rejected: 0, newly_allowed: 0, callers: [] })
  })

  test('a key that the log does not have is counted, and the notes warn of it', async () => {
    const files = { 'a.json': [policy('api', [bucket('header:x-k', 1), bucket('header:x-tenant', 1)])], log: LOG_WRITERS.json(LOG) }
    const { stdout, stderr } = await replaying(files, ['--bundle', 'a.json', '--json', 'log'])
    expect(JSON.parse(stdout).bundles[0]).toMatchObject({ missing: { 'header:x-tenant': 14 } })
    expect(stderr).toBe(
      'edge replay: warning: header:x-tenant is missing in 14 of 15 requests: about those, the logs say nothing of api / by-x-tenant\n',
    )
  })

  test('what a shadow policy would reject is counted apart, with its callers', async () => {
    const report = await replayed(
      { 'a.json': [...A, policy('new', [bucket('header:x-k', 2)], { mode: 'shadow' })], log: LOG_WRITERS.json(LOG) },
      ['--bundle', 'a.json', 'log'],
    )
    expect(report.bundles[0]).toMatchObject({ allowed: 12, rejected: 3, would_reject: 5 })
    expect(report.bundles[0]!.rules).toEqual([
      expect.objectContaining({ policy: 'api', rejected: 3, would_reject: 0 }),
      {
        policy: 'new',
        rule: 'by-x-k',
        rejected: 0,
        would_reject: 5,
        first_at: '2026-01-01T00:00:00.000Z',
        last_at: '2026-01-01T00:00:01.000Z',
        callers: [
          { values: { 'header:x-k': 'a' }, rejected: 0, would_reject: 3 },
          { values: { 'header:x-k': 'b' }, rejected: 0, would_reject: 2 },
        ],
      },
    ])
  })

  test('a request that cannot be decided is neither allowed nor rejected', async () => {
    const files = {
      'a.json': [policy('api', [bucket('header:x-k', 5)], { selector: { hosts: ['a.example'] } })],
      log: LOG_WRITERS.combined(LOG),
    }
    const { status, stdout, stderr } = await replaying(files, ['--bundle', 'a.json', '--json', 'log'])
    expect(status).toBe(0)
    expect(JSON.parse(stdout).bundles[0]).toMatchObject({ allowed: 0, rejected: 0, refused: { missing_original_host: 15 } })
    expect(stderr).toContain('15 requests could be neither allowed nor rejected (missing_original_host)')
  })

  test('credentials are shown as digests, other ones in each run', async () => {
    const rule = { ...bucket('bearer:', 1), name: 'r', limit_keys: ['bearer', 'cookie:sid', 'header:x-k'] }
    const log = LOG_WRITERS.json(
      Array.from({ length: 3 }, () => ({
        timeMs: START,
        uri: '/api',
        headers: { authorization: 'Bearer s3cret', cookie: 'sid=c00kie', 'x-k': 'a' },
      })),
    )
    const files = { 'a.json': [policy('api', [rule])], 'b.json': [policy('api', [])], log }
    const runs = []
    for (let i = 0; i < 2; i++) {
      const { stdout } = await replaying(files, ['--bundle', 'b.json', '--bundle', 'a.json', '--json', 'log'])
      expect(stdout).not.toMatch(/s3cret|c00kie/)
      const { bundles, difference } = JSON.parse(stdout)
      const { values } = bundles[1].rules[0].callers[0]
      expect(values).toEqual({
        bearer: expect.stringMatching(/^[0-9a-f]{16}$/),
        'cookie:sid': expect.stringMatching(/^[0-9a-f]{16}$/),
        'header:x-k': 'a',
      })
      expect(difference.callers[0].values).toEqual(values)
      runs.push(values)
    }
    expect(runs[0]).not.toEqual(runs[1])
  })
})

describe('logs', () => {
  const byAgent = [policy('api', [bucket('header:user-agent', 5)])]
  const requestsOf = (agent: string, seconds: number, count: number): Logged[] =>
    requests('', seconds, count).map((request) => ({ ...request, client: '203.0.113.7', headers: { 'user-agent': agent } }))
  const log = [...requestsOf('a', 0, 8), ...requestsOf('b', 1, 4), ...requestsOf('a', 21, 3)]

  test.each(Object.entries(LOG_WRITERS))('in the format %s have the same outcome', async (_, write) => {
    const report = await replayed({ 'a.json': byAgent, log: write(log) }, ['--bundle', 'a.json', 'log'])
    expect(report).toMatchObject({ requests: 15, unreadable: 0, from: '2026-01-01T00:00:00.000Z', to: '2026-01-01T00:00:21.000Z' })
    expect(report.bundles[0]).toMatchObject({ allowed: 11, rejected: 4, missing: {} })
    expect(report.bundles[0]!.rules[0]!.callers).toEqual([{ values: { 'header:user-agent': 'a' }, rejected: 4 }])
  })

  test('are merged by time, whatever their formats and their order', async () => {
    const parts: Logged[][] = [[], [], []]
    for (const [i, request] of log.entries()) parts[i % 3]!.push(request)
    const files = {
      'a.json': byAgent,
      'one.log': LOG_WRITERS.combined(parts[0]!),
      'two.gz': LOG_WRITERS.gzip(parts[1]!.toReversed()),
      'three.har': LOG_WRITERS.har(parts[2]!),
    }
    const report = await replayed(files, ['--bundle', 'a.json', 'three.har', 'two.gz', 'one.log'])
    expect(report).toMatchObject({ requests: 15, unreadable: 0 })
    expect(report.out_of_order).toBeUndefined()
    expect(report.bundles[0]).toMatchObject({ allowed: 11, rejected: 4 })
  })

  test("the client's address is the last hop behind X-Forwarded-For", async () => {
    const byAddress = [policy('api', [bucket('ip:address', 1)])]
    const from = (client: string, forwarded?: string): Logged => ({
      timeMs: START,
      uri: '/api',
      client,
      ...(forwarded !== undefined && { headers: { 'x-forwarded-for': forwarded } }),
    })
    const given = [from('203.0.113.7'), from('203.0.113.7'), from('10.0.0.1', '203.0.113.7'), from('198.51.100.1', '203.0.113.7')]
    const report = await replayed({ 'a.json': byAddress, log: LOG_WRITERS.json(given) }, ['--bundle', 'a.json', 'log'])
    expect(report.bundles[0]).toMatchObject({ allowed: 2, rejected: 2 })
    expect(report.bundles[0]!.rules[0]!.callers).toEqual([{ values: { 'ip:address': '203.0.113.7' }, rejected: 2 }])
  })

  test('requests that stand too late to be put in order count at the present time, and are counted', async () => {
    const many = Array.from({ length: 12_000 }, (_, i): Logged => ({ timeMs: START + 60_000 + i, uri: '/other' }))
    const report = await replayed({ 'a.json': byAgent, log: LOG_WRITERS.json([...many, ...requestsOf('late', 0, 6)]) }, [
      '--bundle',
      'a.json',
      'log',
    ])
    expect(report).toMatchObject({ requests: 12_006, out_of_order: 6, from: '2026-01-01T00:00:00.000Z' })
    expect(report.bundles[0]).toMatchObject({ rejected: 1 })
    expect(report.bundles[0]!.rules[0]!.first_at! >= '2026-01-01T00:01:00').toBe(true)
  })

  test('lines that cannot be read are counted, and the first ones shown with their places', async () => {
    const text = `nonsense\n${LOG_WRITERS.json(log)}${'{"time":1}\n'.repeat(7)}`
    const { status, stdout, stderr } = await replaying({ 'a.json': byAgent, log: text }, ['--bundle', 'a.json', '--json', 'log'])
    expect([status, JSON.parse(stdout).unreadable]).toEqual([0, 8])
    expect(stderr.split('\n').slice(0, 3)).toEqual([
      'edge replay: log:1: neither the combined format nor JSON',
      'edge replay: log:17: it names no request (method and uri)',
      'edge replay: log:18: it names no request (method and uri)',
    ])
    expect(stderr).toContain('3 more could not be read')
  })

  test('with --mode reverse_proxy, bodies count where a log has them', async () => {
    const rule = {
      name: 'tokens',
      limit_keys: ['llm:model'],
      algorithm: 'token_bucket_llm',
      algorithm_config: { tokens_per_minute: 1000, max_completion_tokens: 400 },
    }
    const line = {
      time: new Date(START).toISOString(),
      method: 'POST',
      uri: '/api',
      host: 'a.example',
      headers: { 'content-type': 'application/json' },
    }
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }], max_tokens: 400 })
    const files = { 'a.json': [policy('api', [rule])], log: `${JSON.stringify({ ...line, body })}\n`.repeat(4) }
    const proxied = await replayed(files, ['--bundle', 'a.json', '--mode', 'reverse_proxy', 'log'])
    expect(proxied.bundles[0]).toMatchObject({ allowed: 2, rejected: 2, missing: {} })
    expect(proxied.bundles[0]!.rules[0]!.callers).toEqual([{ values: { 'llm:model': 'm' }, rejected: 2 }])
    const asked = await replayed(files, ['--bundle', 'a.json', 'log'])
    expect(asked.bundles[0]).toMatchObject({ allowed: 4, missing: { 'llm:model': 4 } })
  })
})

test('the summary has the same numbers, for people', async () => {
  const files = { 'a.json': A, 'b.json': B, log: LOG_WRITERS.json(LOG) }
  const { status, stdout, stderr } = await replaying(files, ['--bundle', 'a.json', '--bundle', 'b.json', 'log'])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toBe(`15 requests from 2026-01-01T00:00:00.000Z to 2026-01-01T00:00:30.000Z (30 s)

  ALLOWED      %  REJECTED      %  WOULD REJECT     %  VERSION  BUNDLE
       12  80.00         3  20.00             0  0.00        1  a.json
        9  60.00         6  40.00             0  0.00        2  b.json

With b.json instead: 3 requests newly rejected, 0 newly allowed
  NEWLY REJECTED  NEWLY ALLOWED  POLICY  RULE    CALLER
               2              0  api     by-x-k  header:x-k=a
               1              0  api     by-x-k  header:x-k=b

a.json: rules
  REJECTED  WOULD REJECT  FIRST                     LAST                      POLICY  RULE
         3             0  2026-01-01T00:00:00.000Z  2026-01-01T00:00:20.000Z  api     by-x-k

a.json: callers
  REJECTED  WOULD REJECT  POLICY  RULE    CALLER
         3             0  api     by-x-k  header:x-k=a

b.json: rules
  REJECTED  WOULD REJECT  FIRST                     LAST                      POLICY  RULE
         6             0  2026-01-01T00:00:00.000Z  2026-01-01T00:00:20.000Z  api     by-x-k

b.json: callers
  REJECTED  WOULD REJECT  POLICY  RULE    CALLER
         5             0  api     by-x-k  header:x-k=a
         1             0  api     by-x-k  header:x-k=b
`)
})

test('values that would steer a terminal are shown as what they are', async () => {
  const log = LOG_WRITERS.json(requests('\x1b[2J\u202e<b>', 0, 7))
  const { stdout } = await replaying({ 'a.json': A, log }, ['--bundle', 'a.json', 'log'])
  expect(stdout).toContain('header:x-k=\\u{1b}[2J')
  expect(stdout).not.toContain('\x1b')
  expect(stdout).not.toContain('\u202e')
})
