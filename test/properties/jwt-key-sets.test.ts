import fc from 'fast-check'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { beforeAll, expect, test } from 'vitest'
import { KeySet, type PublishedKeys, readKeySet } from '../../src/callers/jwt/key-set.ts'
import { TokenVerifier } from '../../src/callers/jwt/token-verifier.ts'
import { isVerified } from '../../src/request/caller.ts'
import {
  goodClaims,
  jwkOf,
  jwtEntry,
  keySetText,
  signedToken,
  type TestKey,
  TOKEN_TIME_S,
  testKey,
} from '../support/callers/test-issuer.ts'
import { sized } from '../support/run/property-runs.ts'

const ENTRY = jwtEntry()
let keys: TestKey[]

beforeAll(() => {
  keys = [testKey('rsa', 'a'), testKey('rsa', 'b'), testKey('P-256', 'a')]
})

function accepts(set: readonly object[], token: string): boolean {
  const keySet = new KeySet(readKeySet(keySetText(...set)) as PublishedKeys)
  const verdict = new TokenVerifier([ENTRY], { of: () => keySet }, { nowMs: () => 0, wallMs: () => TOKEN_TIME_S * 1000 }).verify(
    token,
    () => undefined,
  )
  return !('missingKeyOf' in verdict) && isVerified(verdict)
}

async function joseAccepts(set: readonly object[], token: string): Promise<boolean> {
  try {
    const keySet = createLocalJWKSet({ keys: set } as Parameters<typeof createLocalJWKSet>[0])
    await jwtVerify(token, keySet, { algorithms: ['RS256', 'ES256'], currentDate: new Date(TOKEN_TIME_S * 1000) })
    return true
  } catch {
    return false
  }
}

function rarely<T>(...values: readonly T[]): fc.Arbitrary<T | undefined> {
  return fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.constantFrom(...values) })
}

const member = fc.record({
  key: fc.nat(2),
  isNameless: fc.boolean(),
  more: fc.record({
    use: rarely<unknown>('sig', 'sig', 'enc', '', null),
    alg: rarely<unknown>('RS256', 'RS256', 'ES256', 'RS512', 'none', null),
    key_ops: rarely<unknown>(['verify'], ['verify'], ['sign'], ['verify', 'sign'], ['verify', 'verify'], [], 'verify', null),
    ext: rarely<unknown>(true, false, 'true', null),
    kid: rarely<unknown>('a', 'b', 'c', '', 7, null),
    kty: rarely<unknown>('oct', 'EC', 'rsa', null),
    e: rarely<unknown>('AQAC', '', null),
    y: rarely<unknown>('', 'AQ', null),
    d: rarely<unknown>('AQ'),
    x5c: rarely<unknown>(['AQ'], 'AQ'),
  }),
})

test('a set of odd keys verifies what jose verifies with one of them, and what it verifies with all of them unless the kid is no text', async () => {
  const seen = { accepted: 0, refused: 0 }
  await fc.assert(
    fc.asyncProperty(
      fc.array(member, { minLength: 1, maxLength: 3 }),
      fc.nat(2),
      fc.constantFrom('a', 'b', undefined),
      async (members, signer, kid) => {
        const set = members.map(({ key, isNameless, more }) => {
          const stated = Object.fromEntries(Object.entries(more).filter(([, value]) => value !== undefined))
          const { kid: name, ...jwk } = jwkOf(keys[key]!)
          return { ...jwk, ...(isNameless ? {} : { kid: name }), ...stated }
        })
        const token = signedToken(signer === 2 ? 'ES256' : 'RS256', keys[signer]!, goodClaims(), { kid })
        const ours = accepts(set, token)
        // Alone, because jose refuses to choose between keys that it could not use, or that are one key listed twice.
        const verifies = await Promise.all(set.map((one) => joseAccepts([one], token)))
        if (ours) expect(verifies).toContain(true)
        else if (await joseAccepts(set, token)) expect(isNamedByText(set[verifies.indexOf(true)]!)).toBe(false)
        seen[ours ? 'accepted' : 'refused']++
      },
    ),
    { numRuns: sized(80, 4500) },
  )
  expect(Math.min(seen.accepted, seen.refused)).toBeGreaterThan(5)
})

function isNamedByText({ kid }: { kid?: unknown }): boolean {
  return kid === undefined || typeof kid === 'string'
}
