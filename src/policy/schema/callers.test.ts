import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, matching, policy } from '../../../test/support/bundles/bundles.ts'
import { planOf } from '../../../test/support/bundles/compiled-rule.ts'
import { CALLERS } from '../../../test/support/callers/good-callers.ts'
import { formatProblem } from '../../text/problem.ts'
import { parseBundle } from '../parse.ts'

const OKTA = { ...CALLERS.jwt[0], jwks_file: undefined, jwks_url: 'https://okta.test/keys' }
const ISSUER = 'callers.jwt[0]'
const PLAIN_PATH = 'expected a path that starts with /, of letters, digits, ".", "_", "~" and "-", that every backend reads alike'

describe('a section of callers', () => {
  test('has defaults, and compiles to what the engine reads', () => {
    const plan = planOf({ ...bundle(1), callers: { mode: 'enforce', except_paths: ['/health'], jwt: [OKTA], keys: {} } })
    expect(plan.callers).toMatchObject({ mode: 'enforce', verifiesTokens: true, source: { keys: { from: ['bearer'] } } })
    expect(plan.callers!.source.jwt![0]).toMatchObject({ clock_skew_seconds: 60, labels: { team: { claim: 'team' } } })
    expect(['/health', '/health/x', '/healthy'].map((path) => plan.callers!.exceptPaths!.cover(path))).toEqual([true, true, false])
    expect(planOf({ ...bundle(1), callers: { keys: {} } }).callers).toMatchObject({ mode: undefined, verifiesTokens: false })
    expect(planOf(bundle(1)).callers).toBeUndefined()
  })

  test('a problem never quotes a URL with a password or a key', () => {
    const wrong = [
      'https://u:canary@okta.test/',
      'u:canary@okta.test',
      'https://okta.test/?key=canary#',
      `https://u:canary@${'a'.repeat(300)}`,
    ]
    for (const url of wrong) {
      for (const entry of [{ jwks_url: url }, { jwks_url: undefined, jwks_file: url }, { issuer: 'https://u:canary@\n' }]) {
        const parsed = parseBundle(JSON.stringify({ ...bundle(1), callers: { jwt: [{ ...OKTA, ...entry }] } }))
        expect(parsed.ok).toBe(false)
        expect(JSON.stringify(parsed)).not.toContain('canary')
      }
    }
  })

  test.each<[string, object, string]>([
    ['nothing', {}, 'callers: expected at least one of jwt and keys, got an object'],
    [
      'another mode',
      { mode: 'off', keys: {} },
      'callers.mode: expected "enforce" or "shadow" (leave `mode` out to refuse nobody), got "off"',
    ],
    ['no issuers', { jwt: [] }, 'callers.jwt: expected at least one issuer (leave `jwt` out to verify no tokens), got an empty list'],
    [
      'an entry named key',
      jwt({ name: 'key' }),
      `${ISSUER}.name: expected a name of 1 to 64 letters, digits, ".", "_" or "-", other than "key" in any case`,
    ],
    ['an entry named Key', jwt({ name: 'Key' }), `${ISSUER}.name: expected a name of 1 to 64`],
    ['a colon in a name', jwt({ name: 'a:b' }), `${ISSUER}.name: expected a name of 1 to 64`],
    ['no audiences', jwt({ audiences: [] }), `${ISSUER}.audiences: expected at least one audience (["*"] accepts any), got an empty list`],
    ['* beside others', jwt({ audiences: ['a', '*'] }), `${ISSUER}.audiences: expected "*" alone, because it accepts any audience`],
    ['no audience at all', jwt({ audiences: undefined }), `${ISSUER}.audiences: expected a list of audiences, but it is missing`],
    ['two key sets', jwt({ jwks_file: 'a.json' }), `${ISSUER}: expected exactly one of jwks_url and jwks_file`],
    ['no key set', jwt({ jwks_url: undefined }), `${ISSUER}: expected exactly one of jwks_url and jwks_file`],
    [
      'a path for a file',
      jwt({ jwks_url: undefined, jwks_file: '../keys.json' }),
      `${ISSUER}.jwks_file: expected the name of a file in EDGE_SECRETS_DIR`,
    ],
    ['a password in a URL', jwt({ jwks_url: 'https://a:b@okta.test/' }), `${ISSUER}.jwks_url: expected a URL with http:// or https://`],
    ['a file URL', jwt({ jwks_url: 'file:///etc/passwd' }), `${ISSUER}.jwks_url: expected a URL with http:// or https://`],
    ['a URL with a fragment', jwt({ jwks_url: 'https://okta.test/#a' }), `${ISSUER}.jwks_url: expected a URL with http:// or https://`],
    ['a shared secret', jwt({ algorithms: ['HS256'] }), `${ISSUER}.algorithms[0]: expected one of RS256, RS384`],
    [
      'no algorithm',
      jwt({ algorithms: [] }),
      `${ISSUER}.algorithms: expected at least one algorithm (leave \`algorithms\` out for those of the keys)`,
    ],
    ['much skew', jwt({ clock_skew_seconds: 301 }), `${ISSUER}.clock_skew_seconds: expected a whole number from 0 to 300, got 301`],
    [
      'a label named id',
      jwt({ labels: { id: { claim: 'a' } } }),
      `${ISSUER}.labels: expected each key to be a name of 1 to 64 letters, digits, ".", "_" or "-", other than "id", "after" and "limit", got "id"`,
    ],
    [
      'a label without a claim',
      jwt({ labels: { team: {} } }),
      `${ISSUER}.labels.team.claim: expected a string of 1 to 256 printable ASCII characters, but it is missing`,
    ],
    ['an unknown field', jwt({ audience: 'a' }), `${ISSUER}: unknown field "audience": did you mean "audiences"?`],
    [
      'all paths excepted',
      { keys: {}, except_paths: ['/'] },
      'callers.except_paths[0]: expected a path below / (leave `mode` out to refuse nobody), got "/"',
    ],
    [
      'no paths',
      { keys: {}, except_paths: [] },
      'callers.except_paths: expected at least one path (leave `except_paths` out to except none)',
    ],
    ['a path with an escape', { keys: {}, except_paths: ['/%68'] }, `callers.except_paths[0]: ${PLAIN_PATH}, got "/%68"`],
    ['a path with dots', { keys: {}, except_paths: ['/a/../b'] }, `callers.except_paths[0]: ${PLAIN_PATH}`],
    [
      'a place that is none',
      { keys: { from: ['cookie:a'] } },
      'callers.keys.from[0]: expected "bearer" or "header:<name>", got "cookie:a"',
    ],
    [
      'Authorization by its name',
      { keys: { from: ['header:Authorization'] } },
      'callers.keys.from[0]: expected a header field of its own for keys ("bearer" reads Authorization)',
    ],
    ['a place twice', { keys: { from: ['header:x-key', 'header:X-Key'] } }, 'callers.keys.from: expected each place once'],
    ['no place', { keys: { from: [] } }, 'callers.keys.from: expected at least one place (leave `from` out for "bearer")'],
    [
      'a name twice',
      { jwt: [OKTA, { ...OKTA, issuer: 'b' }] },
      'callers.jwt[1].name: "okta" is already used by callers.jwt[0].name: names of entries are part of caller:id',
    ],
    [
      'a name in another case',
      { jwt: [OKTA, { ...OKTA, name: 'OKTA', issuer: 'b' }] },
      'callers.jwt[1].name: "OKTA" is already used by callers.jwt[0].name: names of entries are part of caller:id',
    ],
    [
      'an issuer twice',
      { jwt: [OKTA, { ...OKTA, name: 'b' }] },
      'callers.jwt[1].issuer: "https://okta.test" is already used by callers.jwt[0].issuer: the issuer of a token chooses its entry',
    ],
  ])('is refused for %s', (_, callers, problem) => {
    expect(problemsOf({ ...bundle(1), callers })).toEqual([expect.stringContaining(problem)])
  })

  test.each(['key', 'id', 'limit', 'limits:'])('is never told to use a name that is not allowed: %s', (name) => {
    const problems = problemsOf({ ...bundle(1), callers: jwt({ name: 'a:b', labels: { [name]: { claim: 'a' } } }) })
    expect(problems.join('\n')).not.toContain('did you mean')
    expect(problemsOf({ ...bundle(1), callers: jwt({ name: 'key' }) })).toEqual([expect.stringMatching(/, got "key"$/)])
  })
})

describe('a caller: key', () => {
  const rules = [bucketRule('r', ['caller:team', 'caller:id'], 1), matching({ 'caller:tem': 'a' }, bucketRule('s', [], 1))]
  const RULES = 'policies[0].spec.rules'

  test('needs callers in the bundle', () => {
    const way = 'needs `callers` in the bundle: add callers.jwt to verify tokens, or callers.keys to issue keys'
    expect(problemsOf(bundle(1, policy('p', { rules })))).toEqual([
      `${RULES}[0].limit_keys[0]: "caller:team" ${way}`,
      `${RULES}[0].limit_keys[1]: "caller:id" ${way}`,
      `${RULES}[1].match["caller:tem"]: "caller:tem" ${way}`,
    ])
  })

  test('is id or a label of callers.jwt, unless keys are issued: operators choose their labels', () => {
    const problem = `${RULES}[1].match["caller:tem"]: no entry of callers.jwt defines the label of "caller:tem": did you mean "caller:team"?`
    expect(problemsOf({ ...bundle(1, policy('p', { rules })), callers: { jwt: [OKTA] } })).toEqual([problem])
    expect(problemsOf({ ...bundle(1, policy('p', { rules })), callers: CALLERS })).toEqual([])
    const far = bucketRule('r', ['caller:plan'], 1)
    expect(problemsOf({ ...bundle(1, policy('p', { rules: [far] })), callers: { jwt: [OKTA] } })).toEqual([
      `${RULES}[0].limit_keys[0]: no entry of callers.jwt defines the label of "caller:plan": define it in labels of callers.jwt, or use caller:id`,
    ])
  })

  test('is what rules read instead of a field that carries issued keys, which nobody may see', () => {
    const reading = [
      bucketRule('r', ['header:X-Api-Key'], 1),
      matching({ 'header:x-api-key': 'a' }, bucketRule('s', ['header:x-other'], 1)),
      bucketRule('t', ['header:x_api_key'], 1),
    ]
    const why = 'carries issued keys (callers.keys.from), which must not be shown: use caller:id or a label'
    expect(problemsOf({ ...bundle(1, policy('p', { rules: reading })), callers: CALLERS })).toEqual([
      `${RULES}[0].limit_keys[0]: "header:X-Api-Key" ${why}`,
      `${RULES}[1].match["header:x-api-key"]: "header:x-api-key" ${why}`,
      `${RULES}[2].limit_keys[0]: "header:x_api_key" ${why}`,
    ])
    expect(problemsOf({ ...bundle(1, policy('p', { rules: reading })), callers: { jwt: [OKTA], keys: {} } })).toEqual([])
  })

  test('is refused in a policy with a domain, where nobody verifies callers', () => {
    const spec = { selector: { domain: 'd' }, rules: [bucketRule('r', ['caller:id'], 1)] }
    expect(problemsOf({ ...bundle(1, policy('p', spec)), callers: CALLERS })).toEqual([
      `${RULES}[0].limit_keys[0]: expected descriptor:<name> in a policy with a domain, got "caller:id": calls of the rate limit service have only descriptors`,
    ])
  })

  test.each(['caller:', 'caller:a b', 'caller:after', 'caller:limit', `caller:${'a'.repeat(65)}`])('is not %s', (key) => {
    expect(problemsOf({ ...bundle(1, policy('p', { rules: [bucketRule('r', [key], 1)] })), callers: CALLERS })).toEqual([
      expect.stringMatching(/limit_keys\[0\]: expected .*caller:id, caller:<label>/),
    ])
  })
})

function jwt(fields: object): object {
  return { jwt: [{ ...OKTA, ...fields }] }
}

function problemsOf(content: object): string[] {
  const parsed = parseBundle(JSON.stringify(content))
  return parsed.ok ? [] : parsed.problems.map(formatProblem)
}
