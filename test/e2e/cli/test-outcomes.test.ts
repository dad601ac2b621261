import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { bucketRule, bundle, matching, policy, unlimitedRule } from '../../support/bundles/bundles.ts'
import { tested } from '../../support/cases/tested.ts'
import { command } from '../../support/service/command.ts'
import { scratchDirectory } from '../../support/service/running.ts'

const PER_KEY = matching({ 'header:x-k': '*' }, bucketRule('per-key', ['header:x-k'], 5, 0.1))
const BUNDLE = bundle(1, policy('api', { selector: { pathPrefix: '/api' }, rules: [PER_KEY, unlimitedRule('rest', 'else')] }))

const REQUEST = { method: 'GET', uri: '/api/x', host: 'h', headers: { 'x-k': 'a' }, body: '' }

/** The example of the specification of the format. */
const FIVE_AT_ONCE = `
- name: five at once                       # CASES: a list; each case starts with full counters
  at: 2026-01-01T00:00:00Z                 # the default
  steps:
    - after: 0s
      request: { method: GET, uri: /api/x, host: h, headers: { x-k: a }, body: "" }
      times: 6
      expect: { status: [200, 200, 200, 200, 200, 429],
                reason: token_bucket_exceeded, policy: api, rule: per-key, headers: { Retry-After: 10 } }
`

function caseOf(expect: object, more: object = {}): object[] {
  return [{ name: 'it', steps: [{ request: REQUEST, expect, ...more }] }]
}

describe('cases that hold', () => {
  test('have a line each, and the exit status is 0', async () => {
    expect(await tested(BUNDLE, FIVE_AT_ONCE)).toEqual({
      status: 0,
      stdout: 'cases.yaml\n  ok    five at once\n\n1 case: it passes\n',
      stderr: '',
    })
  })

  test('each case starts with full counters', async () => {
    const twice = `${FIVE_AT_ONCE}${FIVE_AT_ONCE.replace('five at once ', 'five again   ')}`
    expect(await tested(BUNDLE, twice)).toMatchObject({ status: 0, stdout: expect.stringContaining('2 cases: all pass') })
  })

  test.for<[string, object, object?]>([
    ['one status for all requests', { status: 200 }, { times: 5 }],
    ['a list of statuses says how many requests there are', { status: [200, 200, 200, 200, 200, 429] }],
    ['names of header fields in any case', { headers: { 'ratelimit-LIMIT': '5' } }],
    ['numbers as text', { headers: { 'RateLimit-Limit': 5, 'RateLimit-Remaining': 4 } }],
    ['a field that must be absent', { headers: { 'Retry-After': null } }],
    ['the reason of an allowed request', { reason: 'all_rules_passed', policy: 'api', rule: 'per-key' }],
    ['the rest is of the last response', { status: [200, 200, 200, 200, 200, 429], reason: 'token_bucket_exceeded' }],
  ])('%s', async ([, expectation, more]) => {
    expect(await tested(BUNDLE, caseOf(expectation, more))).toMatchObject({ status: 0 })
  })

  test('time passes between steps by `after`, which counts from the step before', async () => {
    const steps = [
      { request: REQUEST, times: 5, expect: { status: 200 } },
      { after: '9999ms', request: REQUEST, expect: { status: 429, headers: { 'Retry-After': 1 } } },
      { after: '0.001s', request: REQUEST, expect: { status: 200 } },
      { after: '0.5m', request: REQUEST, expect: { status: 200, headers: { 'RateLimit-Remaining': 2 } } },
      { after: '1d', request: REQUEST, times: 5, expect: { status: 200 } },
    ]
    expect(await tested(BUNDLE, [{ name: 'it', steps }])).toMatchObject({ status: 0 })
  })
})

describe('cases that fail', () => {
  test('say what was expected, what came, and why, and the exit status is 1', async () => {
    const cases = FIVE_AT_ONCE.replace('[200, 200, 200, 200, 200, 429]', '[200, 200, 200, 200, 200, 200]')
    expect(await tested(BUNDLE, cases.replace('Retry-After: 10', 'Retry-After: 7'))).toEqual({
      status: 1,
      stderr: '',
      stdout: `cases.yaml
  FAIL  five at once
        step 1, request 6 of 6: GET /api/x at 2026-01-01T00:00:00.000Z (case at cases.yaml:2)
          status       expected 200 ×6, got 200 ×5, 429
          Retry-After  expected 7, got 10
          Rule per-key of policy api rejects it.
          header:x-k=a has 0 of 5 left, and this request takes 1. It would pass in 10 s.

1 of 1 case fails
`,
    })
  })

  test.for<[string, object, object, string]>([
    ['an allowed request: what is left', { status: 429 }, {}, 'Closest to its limit is rule per-key of policy api: 4 of 5 left after it.'],
    [
      'a rule that is for others',
      { status: 429 },
      { request: { uri: '/api' } },
      'Rule per-key of policy api does not apply: its match does not fit this request; this one has no header:x-k.',
    ],
    ['another path', { status: 429 }, { request: { uri: '/' } }, 'Policy api does not cover it: its path does not match.'],
    ['a policy that is not there', { policy: 'apis' }, {}, 'expected apis (the bundle has no such policy), got api'],
    ['a rule that is not there', { policy: 'api', rule: 'x' }, {}, 'expected x (policy api has no such rule), got per-key'],
    [
      'a refusal',
      { status: 200 },
      { request: { uri: '/api', headers: { 'x-k': ['a', 'b'] } } },
      'Bad request: a field that a rule reads is repeated, or it reads the model of a body that is not JSON.',
    ],
    ['a field that is there', { headers: { 'RateLimit-Limit': null } }, {}, 'RateLimit-Limit  expected none, got 5'],
    ['a field that is absent', { headers: { 'X-Nothing': 1 } }, {}, 'X-Nothing  expected 1, got none'],
  ])('%s', async ([, expectation, more, line]) => {
    const said = await tested(BUNDLE, caseOf(expectation, more))
    expect(said).toMatchObject({ status: 1, stdout: expect.stringContaining(line) })
  })

  test('rules that nearly reject it are named before those that have nothing to do with it', async () => {
    const far = Array.from({ length: 9 }, (_, i) => policy(`far-${i}`, { selector: { pathPrefix: `/far/${i}` }, rules: [] }))
    const writes = policy('writes', { selector: { pathPrefix: '/api', methods: ['POST'] }, rules: [bucketRule('r', [], 1)] })
    const keyed = policy('keyed', { rules: [bucketRule('r', ['header:x-key'], 1)] })
    const { stdout } = await tested(bundle(1, ...far, writes, keyed), caseOf({ status: 429 }))
    expect(stdout.match(/^ +(?:Rule|Policy) .*$/gm)?.map((line) => line.trim())).toEqual([
      'Rule r of policy keyed does not apply: the request has no header:x-key.',
      'Policy writes does not cover it: its method does not match.',
      ...[0, 1, 2].map((i) => `Policy far-${i} does not cover it: its path does not match.`),
    ])
  })

  test('a case ends with the first step that fails, and the others are run', async () => {
    const steps = [1, 2, 3].map((reset) => ({ request: REQUEST, expect: { headers: { 'RateLimit-Reset': 10 * reset } } }))
    steps[1]!.expect.headers['RateLimit-Reset'] = 1
    const said = await tested(BUNDLE, [{ name: 'first', steps }, ...caseOf({ status: 200 })])
    expect(said.stdout.match(/step \d/g)).toEqual(['step 2'])
    expect(said.stdout).toContain('  ok    it\n\n1 of 2 cases fails\n')
  })

  test('what a terminal would obey is shown, not sent', async () => {
    const request = { uri: '/api/x', headers: { 'x-k': '\u202eevil' } }
    const said = await tested(BUNDLE, [{ name: 'a\u001b[2Jb', steps: [{ request, times: 6, expect: { status: 200 } }] }])
    expect(said.stdout).toContain('FAIL  a\\u{1b}[2Jb\n')
    expect(said.stdout).toContain('header:x-k=\\u{202e}evil has')
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect(said.stdout).not.toMatch(/[\x00-\x09\x0b-\x1f]/)
  })
})

describe('the files', () => {
  test('several are run in order, and one failure is enough for 1', async () => {
    const directory = await scratchDirectory()
    const [bundlePath, good, bad] = ['bundle.json', 'good.yaml', 'bad.json'].map((name) => join(directory, name)) as [
      string,
      string,
      string,
    ]
    await writeFile(bundlePath, JSON.stringify(BUNDLE))
    await writeFile(good, FIVE_AT_ONCE)
    await writeFile(bad, JSON.stringify(caseOf({ status: 500 })))
    const said = await command('test', bundlePath, good, bad, good)
    expect(said.status).toBe(1)
    const shown = said.stdout
      .replaceAll(`${directory}/`, '')
      .split('\n')
      .filter((line) => /^\S|^ {2}\S/.test(line))
    expect(shown).toEqual([
      'good.yaml',
      '  ok    five at once',
      'bad.json',
      '  FAIL  it',
      'good.yaml',
      '  ok    five at once',
      '1 of 3 cases fails',
    ])
  })

  test('a note says that cases do not reach policies of the rate limit service', async () => {
    const domain = policy('limits', { selector: { domain: 'd' }, rules: [bucketRule('r', ['descriptor:k'], 1)] })
    const { status, stderr } = await tested(bundle(1, domain), caseOf({ status: 200 }))
    expect({ status, stderr }).toEqual({
      status: 0,
      stderr: 'bundle.json: note: 1 policy is for the rate limit service, which cases do not call\n',
    })
  })
})

describe('what cannot be run', () => {
  test('an invalid bundle is reported as edge validate does, and the cases are checked too', async () => {
    const said = await tested({ bundle_version: 1, policies: [{ id: 'p' }] }, [{ name: 'it' }])
    expect(said).toMatchObject({ status: 1, stdout: '' })
    expect(said.stderr).toContain('bundle.json:1:33: error: policies[0].spec: expected an object with rules, but it is missing\n')
    expect(said.stderr).toContain('cases.yaml:1:2: error: [0].steps: expected a list of steps, but it is missing\n')
  })

  test('files that are not there', async () => {
    const said = await command('test', '/nowhere/bundle.json', '/nowhere/cases.yaml')
    expect(said).toEqual({
      status: 1,
      stdout: '',
      stderr: '/nowhere/bundle.json: there is no such file\n/nowhere/cases.yaml: error: there is no such file\n',
    })
  })

  test.for<[string[], string]>([
    [[], 'edge test: expected a bundle and at least one file of cases\n\nUsage: edge test'],
    [['b.json'], 'edge test: expected at least one file of cases after the bundle\n\nUsage: edge test'],
    [['--mode', 'proxy', 'b.json', 'c.yaml'], 'edge test: --mode: expected decision_service or reverse_proxy, got "proxy"\n'],
    [['--quick', 'b.json', 'c.yaml'], "edge test: Unknown option '--quick'"],
  ])('edge test %j', async ([args, problem]) => {
    const said = await command('test', ...args)
    expect(said).toMatchObject({ status: 1, stdout: '' })
    expect(said.stderr.startsWith(problem)).toBe(true)
  })

  test('settings that edge serve would refuse', async () => {
    vi.stubEnv('EDGE_TRUSTED_PROXIES', 'everybody')
    onTestFinished(() => void vi.unstubAllEnvs())
    const said = await tested(BUNDLE, FIVE_AT_ONCE)
    expect(said).toMatchObject({ status: 1, stdout: '' })
    expect(said.stderr).toMatch(/^edge test cannot start:\n {2}EDGE_TRUSTED_PROXIES: expected /)
  })

  test('--help explains the format with cases that hold', async () => {
    const { status, stdout } = await command('test', '--help')
    expect(status).toBe(0)
    const example = /A case:\n\n(.*?)\n\n(?=\S)/s.exec(stdout)![1]!
    const quick = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-api-key'], 5)] }))
    expect(await tested(quick, example.replace(/^ {2}/gm, ''))).toMatchObject({ status: 0 })
  })
})
