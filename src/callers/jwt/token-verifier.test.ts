import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  encoded,
  goodClaims,
  jwkOf,
  jwtEntry,
  keySetText,
  signedToken,
  type TestKey,
  TOKEN_TIME_S,
  testKey,
} from '../../../test/support/callers/test-issuer.ts'
import { KeySet, type PublishedKeys, readKeySet } from './key-set.ts'
import { TokenMemory } from './token-memory.ts'
import { TokenVerifier } from './token-verifier.ts'
import { VerificationShare } from './verification-share.ts'

const ADDRESS = (): string => '192.0.2.1'
const ENTRY = jwtEntry({ labels: { team: { claim: 'groups', first: 'team-*' } } })
const key = testKey('P-256', 'current')
const otherKey = testKey('P-256', 'other')
let rsa: TestKey

const sets = new Map<string, KeySet>()
let nowMs = 0
let wallMs = 0
const clock = { nowMs: () => nowMs, wallMs: () => wallMs }
let verifier: TokenVerifier

beforeAll(() => {
  rsa = testKey('rsa')
})

beforeEach(() => {
  nowMs = 1_000_000
  wallMs = TOKEN_TIME_S * 1000
  sets.clear()
  sets.set('idp', setOf(key))
  verifier = new TokenVerifier([ENTRY], { of: (name) => sets.get(name) }, clock)
})

function setOf(...keys: readonly TestKey[]): KeySet {
  return new KeySet(readKeySet(keySetText(...keys.map((one) => jwkOf(one)))) as PublishedKeys)
}

/** A key set that counts how often a signature is verified with it, and takes so much of the clock's time for each. */
function countingSet(costMs = 0): { set: KeySet; count: () => number } {
  let count = 0
  const set = setOf(key)
  const found = set.find('current', 'ES256')!
  const verifies = found.verifies.bind(found)
  found.verifies = (signed, signature) => {
    count++
    nowMs += costMs
    return verifies(signed, signature)
  }
  return { set, count: () => count }
}

function token(claims: object = {}, header: object = {}, by = key): string {
  return signedToken('ES256', by, goodClaims(claims), header)
}

test('a good token says who the caller is', () => {
  const caller = { id: 'idp:alice', labels: new Map([['team', 'team-a']]), claims: goodClaims({ groups: ['x', 'team-a'] }) }
  expect(verifier.verify(token({ groups: ['x', 'team-a'] }), ADDRESS)).toEqual(caller)
  expect(verifier.verify(token({ groups: ['x', 'team-a'] }, { typ: 'at+jwt' }), () => undefined)).toEqual(caller)
})

describe('a bad token says why', () => {
  const cases: [string, () => string, string][] = [
    ['nothing', () => '', 'malformed'],
    ['a text', () => 'edge_abc', 'malformed'],
    ['another issuer', () => token({ iss: 'https://other.example/' }), 'issuer'],
    ['the issuer with a slash less', () => token({ iss: 'https://idp.example' }), 'issuer'],
    ['a list of issuers', () => token({ iss: ['https://idp.example/'] }), 'issuer'],
    ['no issuer', () => token({ iss: undefined }), 'issuer'],
    ['no algorithm', () => `${encoded('{"alg":"none"}')}.${encoded(JSON.stringify(goodClaims()))}.`, 'algorithm'],
    ['an algorithm that the entry does not accept', () => signedToken('RS512', rsa, goodClaims()), 'algorithm'],
    ['another type', () => token({}, { typ: 'dpop+jwt' }), 'algorithm'],
    ['a critical field', () => token({}, { crit: ['exp'], exp: 1 }), 'algorithm'],
    ['that it is too old', () => token({ exp: TOKEN_TIME_S - 60 }), 'expired'],
    ['that it is too young', () => token({ nbf: TOKEN_TIME_S + 61 }), 'not_yet_valid'],
    ['another audience', () => token({ aud: 'web' }), 'audience'],
    ['no subject', () => token({ sub: undefined }), 'claims'],
    ['a label that is too long', () => token({ groups: [`team-${'a'.repeat(1020)}`] }), 'claims'],
    ['a key that is for another algorithm', () => signedToken('RS256', { ...rsa, kid: 'current' }, goodClaims()), 'unknown_key'],
    ['no key, with none for its algorithm', () => signedToken('RS256', rsa, goodClaims(), { kid: undefined }), 'unknown_key'],
    ['a key that did not sign it', () => token({}, { kid: 'current' }, otherKey), 'signature'],
    ['a key that did not sign it, though no key is named', () => token({}, { kid: undefined }, otherKey), 'signature'],
    ['two subjects', () => signedToken('ES256', key, `{"sub":"bob",${JSON.stringify(goodClaims()).slice(1)}`), 'malformed'],
  ]

  test.each(cases)('that has %s', (_name, make, problem) => {
    expect(verifier.verify(make(), ADDRESS)).toEqual({ problem })
  })

  test('that has more than 32,768 characters', () => {
    const filled = (length: number): string => token({ filler: 'x'.repeat(length) })
    // Three characters become four.
    const most = Math.floor(((32_768 - filled(0).length) * 3) / 4)
    expect(32_768 - filled(most).length).toBeLessThan(3)
    expect(verifier.verify(filled(most), ADDRESS)).toMatchObject({ id: 'idp:alice' })
    expect(verifier.verify(filled(most + 3), ADDRESS)).toEqual({ problem: 'malformed' })
  })

  test('never what another issuer signed, even with a key of the same name', () => {
    const other = testKey('P-256', 'current')
    sets.set('partner', setOf(other))
    const partner = jwtEntry({ name: 'partner', issuer: 'https://partner.example/' })
    verifier = new TokenVerifier([ENTRY, partner], { of: (name) => sets.get(name) }, clock)
    expect(verifier.verify(token({}, {}, other), ADDRESS)).toEqual({ problem: 'signature' })
    expect(verifier.verify(token({ iss: partner.issuer }, {}, key), ADDRESS)).toEqual({ problem: 'signature' })
    expect(verifier.verify(token({ iss: partner.issuer }, {}, other), ADDRESS)).toMatchObject({ id: 'partner:alice' })
  })
})

describe('a key that is not here', () => {
  test('is named, so that the set can be fetched', () => {
    expect(verifier.verify(token({}, {}, otherKey), ADDRESS)).toEqual({ missingKeyOf: 'idp', kid: 'other' })
    sets.set('idp', setOf(key, otherKey))
    expect(verifier.verify(token({}, {}, otherKey), ADDRESS)).toMatchObject({ id: 'idp:alice' })
  })

  test('is missing while there is no set', () => {
    sets.clear()
    expect(verifier.verify(token(), ADDRESS)).toEqual({ missingKeyOf: 'idp', kid: 'current' })
    expect(verifier.verify(token({}, { kid: undefined }), ADDRESS)).toEqual({ missingKeyOf: 'idp', kid: undefined })
  })

  test('is not asked for by a token that is refused anyway', () => {
    expect(verifier.verify(token({ exp: 1 }, {}, otherKey), ADDRESS)).toEqual({ problem: 'expired' })
    expect(verifier.verify(token({ aud: 'web' }, {}, otherKey), ADDRESS)).toEqual({ problem: 'audience' })
  })
})

describe('a verified token', () => {
  let counted: ReturnType<typeof countingSet>
  const good = token()

  beforeEach(() => {
    counted = countingSet()
    sets.set('idp', counted.set)
  })

  const verifyAgain = (): number => {
    const before = counted.count()
    expect(verifier.verify(good, ADDRESS)).toMatchObject({ id: 'idp:alice' })
    return counted.count() - before
  }

  test('is verified once in five minutes', () => {
    expect([verifyAgain(), verifyAgain(), verifyAgain()]).toEqual([1, 0, 0])
    wallMs += 300_000
    expect([verifyAgain(), verifyAgain()]).toEqual([1, 0])
  })

  test('is unknown as soon as it has expired', () => {
    const brief = token({ exp: TOKEN_TIME_S })
    expect(verifier.verify(brief, ADDRESS)).toMatchObject({ id: 'idp:alice' })
    wallMs += 59_999
    expect(verifier.verify(brief, ADDRESS)).toMatchObject({ id: 'idp:alice' })
    wallMs += 1
    expect(verifier.verify(brief, ADDRESS)).toEqual({ problem: 'expired' })
  })

  test('is unknown as soon as its key is gone, and known on while others come and go', () => {
    verifyAgain()
    sets.set('idp', setOf(key, otherKey))
    expect([verifyAgain(), verifyAgain()]).toEqual([0, 0])
    sets.set('idp', setOf(otherKey))
    expect(verifier.verify(good, ADDRESS)).toEqual({ missingKeyOf: 'idp', kid: 'current' })
    sets.set('idp', setOf({ ...otherKey, kid: 'current' }))
    expect(verifier.verify(good, ADDRESS)).toEqual({ problem: 'signature' })
    sets.delete('idp')
    expect(verifier.verify(good, ADDRESS)).toEqual({ missingKeyOf: 'idp', kid: 'current' })
  })

  test('is known to the next plan if its entry is the same, and judged anew if not', () => {
    const memory = new TokenMemory()
    const withEntry = (more: object): TokenVerifier =>
      new TokenVerifier([{ ...ENTRY, ...more }], { of: (name) => sets.get(name) }, clock, new VerificationShare(), memory)
    verifier = withEntry({})
    expect(verifyAgain()).toBe(1)
    verifier = withEntry({})
    expect(verifyAgain()).toBe(0)
    expect(withEntry({ audiences: ['web'] }).verify(good, ADDRESS)).toEqual({ problem: 'audience' })
    expect(withEntry({ algorithms: ['RS256'] }).verify(good, ADDRESS)).toEqual({ problem: 'algorithm' })
    expect(withEntry({ name: 'renamed' }).verify(good, ADDRESS)).toEqual({ missingKeyOf: 'renamed', kid: 'current' })
    expect(withEntry({ issuer: 'https://other.example/' }).verify(good, ADDRESS)).toEqual({ problem: 'issuer' })
  })

  test('is not confused with another that differs in one character', () => {
    verifyAgain()
    const last = good.at(-1)!
    for (const other of [
      `${good.slice(0, -1)}${last === 'A' ? 'Q' : 'A'}`,
      `${good}A`,
      good.slice(0, -1),
      `${good}=`,
      ` ${good}`,
      `\u0165${good.slice(1)}`,
    ])
      expect(verifier.verify(other, ADDRESS)).toHaveProperty('problem')
  })
})

describe('the share of an address', () => {
  const bad = (jti: number): string => token({ jti }, { kid: 'current' }, otherKey)

  test('is used up by signatures, good or bad, and others have theirs', () => {
    const { set, count } = countingSet(1)
    sets.set('idp', set)
    const good = token()
    verifier.verify(good, ADDRESS)
    const problems = Array.from({ length: 300 }, (_, i) => verifier.verify(bad(i), ADDRESS))
    expect(problems.slice(0, 50)).toEqual(Array(50).fill({ problem: 'signature' }))
    expect(problems.slice(-50)).toEqual(Array(50).fill({ problem: 'busy' }))
    expect(count()).toBeLessThan(200)
    expect(verifier.verify(token({ jti: 'new' }), ADDRESS)).toEqual({ problem: 'busy' })
    expect(verifier.verify(good, ADDRESS)).toMatchObject({ id: 'idp:alice' })
    expect(verifier.verify(token({ jti: 'new' }), () => '192.0.2.2')).toMatchObject({ id: 'idp:alice' })
    nowMs += 500
    expect(verifier.verify(token({ jti: 'new' }), ADDRESS)).toMatchObject({ id: 'idp:alice' })
  })

  test('is not used by what is refused before a signature is verified, unless it is long', () => {
    // Whatever is charged takes a millisecond.
    verifier = new TokenVerifier([ENTRY], { of: (name) => sets.get(name) }, { nowMs: () => nowMs++, wallMs: () => wallMs })
    const expired = token({ exp: 1 })
    const malformed = `${token()}.`
    for (let i = 0; i < 500; i++) expect(verifier.verify(i % 2 === 0 ? expired : malformed, ADDRESS)).not.toEqual({ problem: 'busy' })
    const long = token({ exp: 1, filler: 'x'.repeat(4096) })
    const problems = Array.from({ length: 500 }, () => verifier.verify(long, ADDRESS))
    expect(problems[0]).toEqual({ problem: 'expired' })
    expect(problems).toContainEqual({ problem: 'busy' })
    expect(verifier.verify(expired, ADDRESS)).toEqual({ problem: 'expired' })
  })

  test('is kept for addresses from which a good token came, however many others send bad ones', () => {
    const { set } = countingSet(1)
    sets.set('idp', set)
    verifier.verify(token(), ADDRESS)
    for (let i = 0; i < 1000; i++) verifier.verify(bad(i), () => `10.0.${i >> 8}.${i & 255}`)
    expect(verifier.verify(token({ jti: 'new' }), () => '192.0.2.2')).toEqual({ problem: 'busy' })
    expect(verifier.verify(token({ jti: 'new' }), ADDRESS)).toMatchObject({ id: 'idp:alice' })
  })

  test('lets a long token be good', () => {
    expect(verifier.verify(token({ filler: 'x'.repeat(4096) }), ADDRESS)).toMatchObject({ id: 'idp:alice' })
  })
})

test('two issuers with the same key, key name and audience never speak for each other, whatever their subjects are', () => {
  const other = jwtEntry({ name: 'idp2', issuer: 'https://idp2.example' })
  sets.set('idp2', setOf(key))
  verifier = new TokenVerifier([ENTRY, other], { of: (name) => sets.get(name) }, clock)
  const idOf = (claims: object): unknown => (verifier.verify(token(claims), ADDRESS) as { id?: string }).id
  for (let i = 0; i < 2; i++) {
    expect([idOf({ sub: 'ada' }), idOf({ iss: other.issuer, sub: 'ada' })]).toEqual(['idp:ada', 'idp2:ada'])
    expect([idOf({ sub: '2:ada' }), idOf({ iss: other.issuer, sub: ':ada' })]).toEqual(['idp:2:ada', 'idp2::ada'])
  }
  expect(idOf({ iss: [other.issuer], sub: 'ada' })).toBeUndefined()
})

test('a step of the clock, forward or back, leaves a remembered token no longer valid than a new one', () => {
  const sent = token({ nbf: TOKEN_TIME_S, exp: TOKEN_TIME_S + 600 })
  const known = (atS: number): unknown => {
    wallMs = atS * 1000
    const verdict = verifier.verify(sent, ADDRESS)
    return 'id' in verdict ? verdict.id : verdict
  }
  const outcomes = [0, 3600, 0, -3600, 0].map((stepS) => known(TOKEN_TIME_S + stepS))
  expect(outcomes).toEqual(['idp:alice', { problem: 'expired' }, 'idp:alice', { problem: 'not_yet_valid' }, 'idp:alice'])
})
