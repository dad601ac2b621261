import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, matching, policy } from '../../../test/support/bundles/bundles.ts'
import { CALLERS } from '../../../test/support/callers/good-callers.ts'
import { formatProblem } from '../../text/problem.ts'
import { parseBundle } from '../parse.ts'
import { unverifiedIdentities } from './caller-escapes.ts'

const [OKTA] = CALLERS.jwt
const TOKENS = { mode: 'enforce', jwt: [OKTA] }
const WITH_DEFAULT = { mode: 'enforce', jwt: [{ ...OKTA, labels: { team: { claim: 'team', default: 'none' } } }] }

describe('a limit by caller', () => {
  test('is escaped by callers without the label, unless it has a default or the policy an else', () => {
    const byTeam = bucketRule('team', ['caller:team'], 1)
    expect(warningsOf(TOKENS, byTeam)).toEqual([
      expect.stringMatching(
        /^policies\[0\]\.spec\.rules\[0\]\.limit_keys: a caller without caller:team is not limited: give the label a default in callers\.jwt, or write "match": \{ "caller:team": "\*" \} here, and add the rule /,
      ),
    ])
    expect(warningsOf(WITH_DEFAULT, byTeam)).toEqual([])
    expect(warningsOf(TOKENS, matching({ 'caller:team': '*' }, byTeam), matching('else', bucketRule('others', ['caller:id'], 1)))).toEqual(
      [],
    )
    // Nobody gives issued keys a default.
    expect(warningsOf({ ...WITH_DEFAULT, keys: {} }, byTeam)).toEqual([
      expect.stringContaining('a caller without caller:team is not limited: write "match"'),
    ])
  })

  test.each(['caller:id', 'jwt:sub', 'jwt:iss'])('by %s is escaped only where a caller need not be known', (key) => {
    const rule = llmRule('budget', [key], { tokens_per_minute: 1000 })
    expect(warningsOf(TOKENS, rule)).toEqual([])
    for (const callers of [{ jwt: [OKTA] }, { ...TOKENS, mode: 'shadow' }]) {
      expect(warningsOf(callers, rule)).toEqual([expect.stringContaining(`a client that leaves out ${key} escapes this budget`)])
    }
  })
})

describe('a bundle with callers is warned once of rules that count by what clients choose', () => {
  const others = matching('else', bucketRule('others', ['ip:address'], 1))
  const chosen = (name: string, key: string): object => matching({ [key]: '*' }, bucketRule(name, [key], 1))

  test('and names them', () => {
    const rules = [...'abcdefg'].map((name) => chosen(name, `header:x-${name}`))
    expect(warningsOf(TOKENS, chosen('key', 'bearer'), others)).toEqual([
      'callers: these rules count by a value that clients choose, p/key by bearer: use caller:id or a label, which they cannot',
    ])
    expect(warningsOf(TOKENS, ...rules, others)).toEqual([expect.stringContaining('p/e by header:x-e and 2 more: use')])
  })

  test('but not of those that a verified caller keeps to, nor of verified claims', () => {
    expect(
      warningsOf(WITH_DEFAULT, bucketRule('r', ['caller:team'], 1), matching({ 'caller:team': 'a' }, bucketRule('s', ['header:x'], 1))),
    ).toEqual([])
    expect(warningsOf(TOKENS, chosen('sub', 'jwt:plan'), others)).toEqual([])
    expect(warningsOf({ mode: 'enforce', keys: {} }, chosen('sub', 'jwt:plan'), others)).toEqual([
      expect.stringContaining('p/sub by jwt:plan'),
    ])
  })

  test('and a match on a verified claim is no choice of the client', () => {
    const rule = matching({ 'jwt:plan': 'staff' }, bucketRule('staff', ['jwt:sub'], 1))
    expect(warningsOf(TOKENS, rule, others)).toEqual([])
    expect(warningsOf(undefined, rule, others)).toEqual([
      expect.stringContaining('so let the gateway verify the token first, or add callers.jwt'),
    ])
  })
})

describe('in the proxy, a bundle without callers has a note about rules that count by what clients choose', () => {
  const noteOf = (...rules: object[]): string | undefined => {
    const parsed = parseBundle(JSON.stringify(bundle(1, policy('p', { rules }), policy('q', { mode: 'shadow', rules }))))
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
    return unverifiedIdentities(parsed.bundle.policies)
  }

  test.each(['jwt:sub', 'header:x-team', 'query:team'])('by %s', (key) => {
    expect(noteOf(bucketRule('r', ['ip:address', key], 1))).toBe(
      `in reverse_proxy, these rules count by a value that clients choose, p/r by ${key}: unless a gateway in front verifies it, add callers and use caller:id or a label`,
    )
  })

  test.each(['ip:address', 'path:1', 'llm:model', 'bearer', 'header:Authorization', 'header:X-Api-Key', 'query:key', 'cookie:session'])(
    'but not by %s, which is nobody, or is checked by the backend',
    (key) => expect(noteOf(bucketRule('r', [key], 1))).toBeUndefined(),
  )
})

function warningsOf(callers: object | undefined, ...rules: object[]): string[] {
  const parsed = parseBundle(JSON.stringify({ ...bundle(1, policy('p', { rules })), callers }))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return parsed.warnings.map(formatProblem)
}
