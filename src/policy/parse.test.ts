import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../../test/support/bundles/bundles.ts'
import { anyText } from '../../test/support/random/texts.ts'
import { sized } from '../../test/support/run/property-runs.ts'
import { formatProblem } from '../text/problem.ts'
import { parseBundle } from './parse.ts'
import { type BundleFormat, formatOf } from './schema/bundle.ts'

describe('a bundle', () => {
  test('says the same in JSON and in YAML', () => {
    const json = bundle(7, policy('p', { mode: 'shadow', selector: { pathPrefix: '/api' }, rules: [bucketRule('r', ['ip:address'], 5)] }))
    const yaml = `
# limits of the public API
bundle_version: 7
policies:
  - id: p
    spec:
      mode: shadow
      selector: { pathPrefix: /api }
      rules:
        - name: r
          limit_keys: ["ip:address"]
          algorithm: token_bucket
          algorithm_config: { tokens_per_second: 1, burst: 5 }
`
    const fromYaml = parseBundle(yaml, 'yaml')
    expect(fromYaml.ok).toBe(true)
    expect(fromYaml).toEqual(parseBundle(JSON.stringify(json)))
  })

  test('may name its schema, begin with a byte order mark, and hold no policies or rules', () => {
    const text = `\ufeff${JSON.stringify({ $schema: './bundle.schema.json', ...bundle(1, policy('p', { rules: [] })) })}`
    expect(parseBundle(text)).toMatchObject({ ok: true, warnings: [] })
    expect(parseBundle('{"bundle_version":0,"policies":[]}')).toMatchObject({ ok: true, warnings: [] })
  })

  test.each([0, 1, Number.MAX_SAFE_INTEGER, '0', '12', '007', '9'.repeat(30)])('may have the version %j', (version) => {
    expect(parseBundle(JSON.stringify(bundle(version)))).toMatchObject({ ok: true })
  })

  test('enforces unless it says otherwise, and streams are watched unless it says otherwise', () => {
    const parsed = parseBundle(
      JSON.stringify(bundle(1, policy('p', { rules: [llmRule('r', [], { tokens_per_day: 5000, streaming: {} })] }))),
    )
    const streaming = {
      enabled: true,
      enforce_mid_stream: true,
      buffer_tokens: 100,
      on_limit_exceeded: 'graceful_close',
      include_partial_usage: true,
    }
    expect(parsed).toMatchObject({
      ok: true,
      bundle: { policies: [{ spec: { mode: 'enforce', rules: [{ algorithm_config: { streaming } }] } }] },
    })
  })

  test('names all its problems at once, those of every policy', () => {
    const rules = [bucketRule('r', ['ip:adress'], -1, 0), bucketRule('', [], 5)]
    const text = JSON.stringify(bundle('x', policy('a', { mode: 'off', rules }), policy('b', { mode: 'on', rules: [] })))
    const parsed = parseBundle(text)
    expect(parsed.ok ? [] : parsed.problems.map(({ path }) => path)).toEqual([
      'bundle_version',
      'policies[0].spec.mode',
      'policies[0].spec.rules[0].limit_keys[0]',
      'policies[0].spec.rules[0].algorithm_config.tokens_per_second',
      'policies[0].spec.rules[0].algorithm_config.burst',
      'policies[0].spec.rules[1].name',
      'policies[1].spec.mode',
    ])
  })

  test('of very many policies is read whole', () => {
    const count = sized(100, 10_000)
    const policies = Array.from({ length: count }, (_, i) => policy(`p${i}`, { rules: [bucketRule('r', ['ip:address'], 5)] }))
    const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
    expect(parsed.ok && parsed.bundle.policies).toHaveLength(count)
  })
})

describe('a text that is no bundle is refused with a reason', () => {
  test.each([
    ['json', '', 'it is empty'],
    ['yaml', ' \n\n', 'it is empty'],
    ['json', 'null', 'expected an object with bundle_version and policies, got null'],
    ['json', '"bundle"', 'expected an object with bundle_version and policies, got "bundle"'],
    ['yaml', '- 1', 'expected an object with bundle_version and policies, got a list'],
  ] as const)('%s %j', (format, text, message) => {
    expect(problemsOf(text, format)).toEqual([message])
  })

  test.each([
    ['json', '{"bundle_version": 1,\n "policies": [,]}', /^not JSON.* line 2, column 15/],
    ['json', '{"bundle_version": 1', /^not JSON.* line 1, column 21/],
    ['json', '<html>', /^not JSON.* line 1, column 1/],
    ['yaml', 'bundle_version: 1\npolicies: [', /^not YAML.* line 2/],
    ['yaml', 'bundle_version: 1\nbundle_version: 2', /^not YAML.* line 2, column \d+$/],
    ['yaml', 'prices:\n  main:\n    *: { input: 1 }', /^not YAML.* line 3.* \(a text that begins with \* needs quotes\)$/],
    ['yaml', 'match: { "jwt:plan": * }', /^not YAML.* line 1.* \(a text that begins with \* needs quotes\)$/],
  ] as const)('%s %j, and the place is named', (format, text, message) => {
    const problems = problemsOf(text, format)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(message)
  })

  test.each(['a: 1\n---\nb: 2', 'policies: *nobody', '#: [', 'a: !!js/function x', '\0'])('yaml %j, in one sentence', (text) => {
    expect(problemsOf(text, 'yaml')).toEqual([expect.stringMatching(/^not YAML: [^\n]+$/)])
  })

  test('however it was cut off, at any byte', () => {
    const text = JSON.stringify(bundle(1, policy('p', { rules: [bucketRule('r', ['header:x'], 5)] })))
    for (let end = 0; end < text.length; end++) expect(parseBundle(text.slice(0, end)).ok).toBe(false)
  })

  test.each(['json', 'yaml'] as const)('whatever it is, without a crash, as %s', (format) => {
    const noise = fc.oneof(anyText, fc.json(), fc.string({ unit: fc.constantFrom(...'{}[]:,"&*!|>-#%@\n \ta1') }))
    fc.assert(
      fc.property(noise, (text) => {
        expect(parseBundle(text, format).ok).toBe(false)
      }),
    )
  })

  test.each(['bundle_version', 'policies', 'id', 'spec', 'mode', 'selector', 'rules', 'limit_keys', 'algorithm', 'algorithm_config'])(
    'with anything odd in the place of %s',
    (member) => {
      const rules = [llmRule('r', ['ip:tor'], { tokens_per_day: 5000 })]
      const good = bundle(1, policy('p', { mode: 'shadow', selector: { methods: ['GET'] }, rules }))
      expect(parseBundle(JSON.stringify(good)).ok).toBe(true)
      for (const odd of [null, -1, true, 'x\n', [[]], [null], [{}]]) {
        const text = JSON.stringify(good, (key, value) => (key === member ? odd : value))
        expect(problemsOf(text, 'json').join('\n')).toMatch(new RegExp(`\\b${member}\\b.*: expected`))
      }
    },
  )
})

test.each([
  ['bundle.json', 'json'],
  ['bundle.yaml', 'yaml'],
  ['bundle.YML', 'yaml'],
  ['bundle', 'json'],
  ['yaml', 'json'],
  ['a.yaml.json', 'json'],
])('the file name %s means %s', (name, format) => {
  expect(formatOf(name)).toBe(format)
})

function problemsOf(text: string, format: BundleFormat): string[] {
  const parsed = parseBundle(text, format)
  return parsed.ok ? [] : parsed.problems.map(formatProblem)
}

describe('metadata', () => {
  test('on bundle, policy and rule is never kept', () => {
    const metadata = { ticket: 'OPS-1', nested: { list: [1, 2] } }
    const rules = [{ ...bucketRule('r', [], 5), metadata }]
    const parsed = parseBundle(JSON.stringify({ ...bundle(1, { ...policy('p', { rules }), ...{ metadata } }), metadata }))
    expect(parsed).toMatchObject({ ok: true, warnings: [] })
    expect(JSON.stringify(parsed)).not.toContain('OPS-1')
  })

  test.each(['"text"', '[]', 'null', '7', 'true'])('is an object, not %s', (value) => {
    for (const [path, text] of [
      ['metadata', `{"bundle_version":1,"policies":[],"metadata":${value}}`],
      ['policies[0].metadata', `{"bundle_version":1,"policies":[{"id":"p","spec":{"rules":[]},"metadata":${value}}]}`],
    ] as const) {
      expect(problemsOf(text, 'json')).toEqual([expect.stringContaining(`${path}: expected an object`)])
    }
  })
})

describe('YAML in which something contains itself is refused', () => {
  test.each([
    ['policies[0]', `bundle_version: 1\npolicies: [ &a [${'1,'.repeat(sized(1000, 90_000))}*a] ]`],
    ['policies[0]', 'bundle_version: 1\npolicies: [ &a {id: p, spec: *a} ]'],
    ['policies[0]', 'bundle_version: 1\npolicies: &a [ *a ]'],
    ['policies[0]', '&a\nbundle_version: 1\npolicies: [ *a ]'],
    ['policies[0]', 'bundle_version: 1\npolicies: [ {id: p, spec: {rules: []}, metadata: &a {deep: {deeper: [*a]}}} ]'],
    ['', 'bundle_version: 1\nmetadata: &a {b: *a}\npolicies: []'],
    ['', 'bundle_version: 1\nx-note: &a [*a]\npolicies: []'],
  ])('at %j', (path, text) => {
    const sentence = 'it contains itself through an alias'
    expect(problemsOf(text, 'yaml')).toEqual([path === '' ? sentence : `${path}: ${sentence}`])
  })

  test('and an alias that comes twice in one another is none of that', () => {
    const text =
      'bundle_version: 1\nmetadata: {keys: &k ["ip:address"], config: &c {tokens_per_second: 1, burst: 5}}\npolicies:\n' +
      '- {id: p, spec: {rules: [{name: a, limit_keys: *k, algorithm: token_bucket, algorithm_config: *c},' +
      ' {name: b, limit_keys: *k, algorithm: token_bucket, algorithm_config: *c}]}}\n'
    expect(parseBundle(text, 'yaml')).toMatchObject({ ok: true, warnings: [], bundle: { policies: [{ spec: { rules: { length: 2 } } }] } })
  })
})

describe('a bundle that is wrong all over', () => {
  test('is refused with the first thousand problems', () => {
    const parsed = parseBundle(`{"bundle_version":1,"policies":[${'0,'.repeat(sized(3000, 300_000))}0]}`)
    const problems = parsed.ok ? [] : parsed.problems
    expect(problems.length).toBeLessThan(1100)
    expect(problems.at(-1)!.message).toContain('these are the first 1000')
  })

  test('in one policy is refused before it is looked at, whatever the list', () => {
    const zeros = `[${'0,'.repeat(sized(100_000, 2_000_000))}0]`
    for (const policy of [`{"id":"p","spec":{"rules":${zeros}}}`, `{"id":"p","spec":{"rules":[],"selector":{"hosts":${zeros}}}}`]) {
      const parsed = parseBundle(`{"bundle_version":1,"policies":[${policy}]}`)
      expect(parsed).toMatchObject({
        ok: false,
        problems: [{ path: 'policies[0]', message: 'expected at most 100000 values in one policy' }],
      })
    }
  })
})

test('any number of warnings refuses nothing', () => {
  const policies = Array.from({ length: 1200 }, (_, i) => ({ id: `p${i}`, 'x-owner': 'team', spec: { rules: [] } }))
  const parsed = parseBundle(JSON.stringify({ bundle_version: 1, policies }))
  expect(parsed).toMatchObject({ ok: true, bundle: { policies: { length: 1200 } }, warnings: { length: 1000 } })
})

describe('wait_seconds', () => {
  const rules = (wait: unknown, rule = bucketRule('r', [], 5)) => bundle(1, policy('p', { rules: [{ ...rule, wait_seconds: wait }] }))
  const problems = (content: object): string[] => {
    const parsed = parseBundle(JSON.stringify(content))
    return parsed.ok ? [] : parsed.problems.map(formatProblem)
  }

  test.each([0.1, 5, 60])('may be %d', (seconds) => {
    expect(parseBundle(JSON.stringify(rules(seconds)))).toMatchObject({ ok: true, warnings: [] })
  })

  test.each([0, -1, 60.1, '5', true, null, [5], Number.MAX_VALUE])('is not %j', (seconds) => {
    expect(problems(rules(seconds))).toEqual([
      expect.stringMatching(/^policies\[0\]\.spec\.rules\[0\]\.wait_seconds: expected a number of seconds, from 0\.1 to 60, got /),
    ])
  })

  test.each(['block', 'unlimited'])('is not for %s, which nobody passes later', (algorithm) => {
    const [problem] = problems(rules(5, { name: 'r', match: { 'ip:address': '192.0.2.1' }, algorithm }))
    expect(problem).toMatch(/wait_seconds: expected nothing here: no request would pass such a rule later, got 5$/)
  })

  test('in a policy in shadow mode has no effect, with a warning', () => {
    const text = JSON.stringify(bundle(1, policy('p', { mode: 'shadow', rules: [{ ...bucketRule('r', [], 5), wait_seconds: 1 }] })))
    expect(parseBundle(text)).toMatchObject({
      ok: true,
      warnings: [{ path: 'policies[0].spec.rules[0].wait_seconds', message: expect.stringContaining('no request waits for it') }],
    })
  })

  test('that is misplaced or misspelled is pointed to its place', () => {
    expect(problems(bundle(1, policy('p', { rules: [bucketRule('r', [], 5)], wait_seconds: 5 } as never)))[0]).toContain('a rule')
    expect(problems(bundle(1, policy('p', { rules: [{ ...bucketRule('r', [], 5), wait_second: 5 }] })))[0]).toContain('"wait_seconds"')
  })
})
