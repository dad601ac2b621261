import { describe, expect, test } from 'vitest'
import { encoded, goodClaims, jwtEntry, TOKEN_TIME_S } from '../../../test/support/callers/test-issuer.ts'
import type { JwtEntry, LabelSource } from '../../policy/schema/callers.ts'
import { parseCompactJws } from './compact-jws.ts'
import { IssuerEntry } from './issuer-entry.ts'

function problemOf(claims: object, entry: Partial<JwtEntry> = {}): string | undefined {
  return new IssuerEntry(jwtEntry(entry)).problemOf(goodClaims(claims), TOKEN_TIME_S)
}

function callerOf(claims: object | string, labels: Record<string, LabelSource> = {}): ReturnType<IssuerEntry['callerOf']> {
  const json = typeof claims === 'string' ? claims : JSON.stringify(goodClaims(claims))
  return new IssuerEntry(jwtEntry({ labels })).callerOf(parseCompactJws(`${encoded('{"alg":"RS256"}')}.${encoded(json)}.AQI`)!)
}

function labelOf(claims: object | string, source: LabelSource): string | undefined {
  return callerOf(claims, { team: source })!.labels.get('team')
}

test('RS256 and what curves state are accepted, and more only if the entry says so', () => {
  const all = ['RS256', 'RS384', 'RS512', 'PS256', 'ES256', 'ES384', 'ES512', 'EdDSA', 'none', 'None', 'HS256', 'rs256', '']
  const usual = new IssuerEntry(jwtEntry())
  expect(all.filter((algorithm) => usual.accepts(algorithm))).toEqual(['RS256', 'ES256', 'ES384', 'ES512', 'EdDSA'])
  const stated = new IssuerEntry(jwtEntry({ algorithms: ['PS256'] }))
  expect(all.filter((algorithm) => stated.accepts(algorithm))).toEqual(['PS256'])
})

describe('claims', () => {
  const [now, skew] = [TOKEN_TIME_S, 60]
  test.each([
    [{}, undefined],
    [{ exp: undefined }, 'claims'],
    [{ exp: String(now + 3600) }, 'claims'],
    [{ exp: null }, 'claims'],
    [{ exp: Number.POSITIVE_INFINITY }, 'claims'],
    [{ exp: now - skew + 1 }, undefined],
    [{ exp: now - skew }, 'expired'],
    [{ exp: now - skew + 0.5 }, undefined],
    [{ exp: 0 }, 'expired'],
    [{ exp: -1 }, 'expired'],
    [{ nbf: now + skew }, undefined],
    [{ nbf: now + skew + 1 }, 'not_yet_valid'],
    [{ nbf: 'now' }, 'claims'],
    [{ nbf: null }, 'claims'],
    [{ iat: now + 9999 }, undefined],
    [{ iat: '1' }, 'claims'],
    [{ aud: undefined }, 'audience'],
    [{ aud: 'other' }, 'audience'],
    [{ aud: 'API' }, 'audience'],
    [{ aud: [] }, 'audience'],
    [{ aud: ['other', 'api'] }, undefined],
    [{ aud: [['api']] }, 'audience'],
    [{ aud: { api: 1 } }, 'audience'],
    [{ sub: undefined }, 'claims'],
    [{ sub: '' }, 'claims'],
    [{ sub: 7 }, 'claims'],
    [{ sub: ['alice'] }, 'claims'],
    [{ sub: 'a'.repeat(1024) }, undefined],
    [{ sub: 'a'.repeat(1025) }, 'claims'],
    [{ sub: 'alice\n' }, 'claims'],
    [{ sub: 'alice\u200b' }, 'claims'],
    [{ sub: 'alice\ud800' }, 'claims'],
    [{ sub: 'Zoë 🙂 a:b' }, undefined],
  ])('%j is judged %s', (claims, problem) => {
    expect(problemOf(claims)).toBe(problem)
  })

  test('the clocks may differ by as much as the entry says', () => {
    expect(problemOf({ exp: now }, { clock_skew_seconds: 0 })).toBe('expired')
    expect(problemOf({ nbf: now + 1 }, { clock_skew_seconds: 0 })).toBe('not_yet_valid')
    expect(problemOf({ exp: now - 299 }, { clock_skew_seconds: 300 })).toBeUndefined()
  })

  test('"*" accepts any audience, and none', () => {
    expect(problemOf({ aud: 'other' }, { audiences: ['*'] })).toBeUndefined()
    expect(problemOf({ aud: undefined }, { audiences: ['*'] })).toBeUndefined()
    expect(problemOf({ aud: '*' }, { audiences: ['api', 'web'] })).toBe('audience')
    expect(problemOf({ aud: 'web' }, { audiences: ['api', 'web'] })).toBeUndefined()
  })
})

test('the id has the name of the entry before the subject', () => {
  expect(callerOf({ sub: 'a:b' })).toEqual({ id: 'idp:a:b', labels: new Map(), claims: goodClaims({ sub: 'a:b' }) })
})

describe('a label', () => {
  test.each([
    [{ team: 'red' }, { claim: 'team' }, 'red'],
    [{ team: 7 }, { claim: 'team' }, '7'],
    [{ team: true }, { claim: 'team' }, 'true'],
    [{ team: '' }, { claim: 'team', default: 'none' }, 'none'],
    [{ team: null }, { claim: 'team', default: 'none' }, 'none'],
    [{ team: { a: 1 } }, { claim: 'team', default: 'none' }, 'none'],
    [{}, { claim: 'team', default: 'none' }, 'none'],
    [{}, { claim: 'team' }, undefined],
    [{}, { claim: 'constructor' }, undefined],
    [{ realm: { roles: { team: 'red' } } }, { claim: 'realm.roles.team' }, 'red'],
    [{ 'https://x.example/team': 'red' }, { claim: 'https://x.example/team' }, 'red'],
    [{ groups: ['team-b', 'admins', 'team-a'] }, { claim: 'groups', first: 'team-*' }, 'team-a'],
    [{ groups: ['team-b', 'admins', 'team-a'] }, { claim: 'groups' }, 'admins'],
    [{ groups: ['admins'] }, { claim: 'groups', first: 'team-*', default: 'none' }, 'none'],
    [{ groups: ['team-a', 'team'] }, { claim: 'groups', first: 'team' }, 'team'],
    [{ groups: [] }, { claim: 'groups', default: 'none' }, 'none'],
    [{ groups: ['', 7, null, ['a'], 'b'] }, { claim: 'groups' }, 'b'],
    [{ groups: 'team-a' }, { claim: 'groups', first: 'team-*' }, 'team-a'],
    [{ groups: 'admins' }, { claim: 'groups', first: 'team-*', default: 'none' }, 'none'],
    [{ realm: { roles: ['b', 'a'] } }, { claim: 'realm.roles' }, 'a'],
    [{ groups: ['b', 'B', 'a'] }, { claim: 'groups' }, 'B'],
    [{ groups: ['ab', 'a', 'abc'] }, { claim: 'groups' }, 'a'],
    [{ groups: ['\u{1f642}', '\uffee'] }, { claim: 'groups' }, '\uffee'],
    [{ groups: ['\uffee', '\u{1f642}'] }, { claim: 'groups' }, '\uffee'],
    [{ groups: ['\u{1f643}', '\u{1f642}'] }, { claim: 'groups' }, '\u{1f642}'],
  ])('of %j by %j is %s', (claims, source, label) => {
    expect(labelOf(claims, source)).toBe(label)
  })

  test('that is a long number keeps all digits, and a subject that is one stays a number', () => {
    expect(labelOf('{"sub":"a","account":12345678901234567891}', { claim: 'account' })).toBe('12345678901234567891')
    expect(callerOf('{"sub":"a","account":12345678901234567891}')!.claims).toEqual({ sub: 'a', account: '12345678901234567891' })
    const { payload } = parseCompactJws(
      `${encoded('{"alg":"RS256"}')}.${encoded(JSON.stringify(goodClaims()).replace('"alice"', '12345678901234567891'))}.AQI`,
    )!
    expect(new IssuerEntry(jwtEntry()).problemOf(payload, TOKEN_TIME_S)).toBe('claims')
  })

  test('has at most 1,024 characters; a longer one that was not chosen does not matter', () => {
    expect(labelOf({ team: 'a'.repeat(1024) }, { claim: 'team' })).toHaveLength(1024)
    expect(callerOf({ team: 'a'.repeat(1025) }, { team: { claim: 'team' } })).toBeUndefined()
    expect(labelOf({ team: ['b'.repeat(1025), 'a'] }, { claim: 'team' })).toBe('a')
  })

  test.each([
    'blue\n',
    '\u202eeulb',
    'bl\u00adue',
    'blue\u{e0041}',
    '\u3164',
    '\ud800',
    'blue\ufe0f',
    'blue\u2800',
    'blue\u00a0',
    'blue\ue000',
    '\u0378',
  ])(
    'of %j has something that nobody sees, so the token is refused, and not taken for one without the label; one that was not chosen does not matter',
    (team) => {
      expect(callerOf({ team }, { team: { claim: 'team', default: 'none' } })).toBeUndefined()
      expect(callerOf({ team: [team] }, { team: { claim: 'team', default: 'none' } })).toBeUndefined()
      expect(labelOf({ team: [team, '\tx', 'a'] }, { claim: 'team', first: 'a' })).toBe('a')
    },
  )

  test.each(['Blue', ' blue', 'blue ', '\ufb01sh', 'e\u0301', '\u00e9', '\u2764\ufe0f'])(
    'of %j is that text, character for character',
    (team) => {
      expect(labelOf({ team }, { claim: 'team' })).toBe(team)
    },
  )
})
