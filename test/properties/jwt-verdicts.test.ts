import { createHash, createHmac, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { beforeAll, describe, expect, test } from 'vitest'
import { KeySet, type PublishedKeys, readKeySet } from '../../src/callers/jwt/key-set.ts'
import { TokenVerifier } from '../../src/callers/jwt/token-verifier.ts'
import { JWT_ALGORITHMS, type JwtAlgorithm, type JwtEntry } from '../../src/policy/schema/callers.ts'
import { isVerified } from '../../src/request/caller.ts'
import { findRepeatedName } from '../../src/text/json-document.ts'
import {
  encoded,
  jwkOf,
  jwtEntry,
  type KeyKind,
  keySetText,
  signatureOf,
  type TestKey,
  TOKEN_TIME_S,
  testKey,
} from '../support/callers/test-issuer.ts'
import { sized } from '../support/run/property-runs.ts'

// jose is the oracle: nothing that it refuses may be accepted, and what it accepts is accepted but for the rules of this table.
const STRICTER: readonly [rule: string, applies: (token: Taken) => boolean][] = [
  [
    'each part has one spelling: no padding, white space or spare bits',
    ({ token }) => token.split('.').some((part) => encoded(Buffer.from(part, 'base64url')) !== part),
  ],
  ['a token has at most 32,768 characters', ({ token }) => token.length > 32_768],
  [
    'JSON does not begin with a byte order mark',
    ({ headerText, payloadText }) => [headerText, payloadText].some((text) => text.startsWith('\ufeff')),
  ],
  [
    'no object has a name twice',
    ({ headerText, payloadText }) => [headerText, payloadText].some((text) => findRepeatedName(text) !== undefined),
  ],
  [
    'a token is a JWT or an access token, by its typ',
    ({ header }) => header['typ'] !== undefined && !/^(application\/)?(at\+)?jwt$/i.test(String(header['typ'])),
  ],
  ['no crit and no b64', ({ header }) => 'crit' in header || 'b64' in header],
  [
    'times are finite',
    ({ payload }) => ['exp', 'nbf', 'iat'].some((name) => Math.abs(payload[name] as number) === Number.POSITIVE_INFINITY),
  ],
  [
    'the subject is a text of 1 to 1,024 characters that can be printed',
    ({ payload: { sub } }) => !/^[^\p{C}]{1,1024}$/u.test(typeof sub === 'string' ? sub : ''),
  ],
  ['the exponent of an RSA key is odd, at least 3 and at most 2^32', ({ payload: { iss } }) => iss === WEAK.issuer],
]

interface Taken {
  readonly token: string
  readonly headerText: string
  readonly payloadText: string
  readonly header: Record<string, unknown>
  readonly payload: Record<string, unknown>
}

const USUAL = jwtEntry({ name: 'usual', issuer: 'https://usual.example/' })
const EVERY = jwtEntry({ name: 'every', issuer: 'https://every.example/', algorithms: [...JWT_ALGORITHMS], audiences: ['api', 'web'] })
/** Its key set is one that no issuer should publish. */
const WEAK = jwtEntry({ name: 'weak', issuer: 'https://weak.example/' })
const ENTRIES = [USUAL, EVERY, WEAK]
const KINDS: readonly KeyKind[] = ['rsa', 'P-256', 'P-384', 'P-521', 'ed25519']
const USUAL_ALGORITHMS = ['RS256', 'ES256', 'ES384', 'ES512', 'EdDSA']

/** Keys of both issuers have the same names. The stranger's are in no set. */
const keys = new Map<string, TestKey>()
const keySets = new Map<string, { keys: Record<string, unknown>[] }>()
let verifier: TokenVerifier

beforeAll(() => {
  for (const owner of ['usual', 'every', 'stranger']) for (const kind of KINDS) keys.set(`${owner} ${kind}`, testKey(kind))
  for (const { name } of [USUAL, EVERY]) keySets.set(name, { keys: KINDS.map((kind) => jwkOf(keyOf(name, kind))) })
  keySets.set('weak', { keys: [jwkOf(keyOf('stranger', 'rsa'), { kid: 'one', e: 'AQ' }), jwkOf(testKey('short-rsa', 'short'))] })
  const sets = new Map([...keySets].map(([name, set]) => [name, new KeySet(readKeySet(keySetText(...set.keys)) as PublishedKeys)]))
  // The clock stands still, so that nothing costs anything. One verifier for all: what it remembers must not let another token in.
  verifier = new TokenVerifier(ENTRIES, { of: (name) => sets.get(name) }, { nowMs: () => 0, wallMs: () => TOKEN_TIME_S * 1000 })
})

function keyOf(owner: string, kind: KeyKind): TestKey {
  return keys.get(`${owner} ${kind}`)!
}

async function joseAccepts(token: string): Promise<boolean> {
  for (const entry of ENTRIES) {
    try {
      await jwtVerify(token, createLocalJWKSet(keySets.get(entry.name) as Parameters<typeof createLocalJWKSet>[0]), {
        issuer: entry.issuer,
        audience: entry.audiences,
        algorithms: entry.algorithms ?? USUAL_ALGORITHMS,
        clockTolerance: entry.clock_skew_seconds,
        currentDate: new Date(TOKEN_TIME_S * 1000),
        requiredClaims: ['exp', 'sub'],
      })
      return true
    } catch {
      // refused for this entry
    }
  }
  return false
}

function accepts(token: string): boolean {
  const verdict = verifier.verify(token, () => undefined)
  return !('missingKeyOf' in verdict) && isVerified(verdict)
}

/** The rules of the table that forbid a token which jose accepts. */
function rulesAgainst(token: string): string[] {
  const texts = token.split('.').map((part) => Buffer.from(part, 'base64url').toString('utf8'))
  const [headerText, payloadText] = texts as [string, string]
  const [header, payload] = [headerText, payloadText].map((text) => JSON.parse(text.replace('\ufeff', '')) as Record<string, unknown>)
  const taken = { token, headerText, payloadText, header: header!, payload: payload! }
  return STRICTER.filter(([, applies]) => applies(taken)).map(([rule]) => rule)
}

async function compare(token: string): Promise<'both' | 'neither' | string[]> {
  const [ours, theirs] = [accepts(token), await joseAccepts(token)]
  // The second answer may come from memory, and is the same.
  expect(accepts(token)).toBe(ours)
  if (ours) expect(theirs).toBe(true)
  if (ours || !theirs) return ours ? 'both' : 'neither'
  return rulesAgainst(token)
}

/** How a token is made: by whom, with what, and what is wrong with it. */
interface Recipe {
  readonly entry: JwtEntry
  readonly algorithm: JwtAlgorithm
  /** Whose key signs it. */
  readonly signer: string
  readonly header: Record<string, unknown>
  readonly claims: Record<string, unknown>
}

function kindOf(algorithm: JwtAlgorithm): KeyKind {
  return ({ ES256: 'P-256', ES384: 'P-384', ES512: 'P-521', EdDSA: 'ed25519' } as Record<string, KeyKind>)[algorithm] ?? 'rsa'
}

/** `Infinity` is written as a number that is read as one. */
function json(value: object): string {
  return JSON.stringify(value, (_, member: unknown) => (member === Number.POSITIVE_INFINITY ? '<inf>' : member)).replaceAll(
    '"<inf>"',
    '1e400',
  )
}

function headerOf({ algorithm, header }: Recipe): string {
  return json({ alg: algorithm, kid: kindOf(algorithm), ...header })
}

function claimsOf({ entry, claims }: Recipe): string {
  return json({ iss: entry.issuer, aud: 'api', sub: 'alice', exp: TOKEN_TIME_S + 600, ...claims })
}

function make(recipe: Recipe, header = headerOf(recipe), claims = claimsOf(recipe)): string {
  const signed = `${encoded(header)}.${encoded(claims)}`
  const { privateKey } = keyOf(recipe.signer, kindOf(recipe.algorithm))
  return `${signed}.${encoded(signatureOf(recipe.algorithm, privateKey, Buffer.from(signed)))}`
}

/** Mostly what is right. */
function oddly<T>(...values: readonly T[]): fc.Arbitrary<T | undefined> {
  return fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.constantFrom(...values) })
}

const header = fc
  .record({
    alg: oddly('none', 'None', 'HS256', 'RS256', 'rs256', 'ES256', 'EdDSA', 'Ed25519', ''),
    kid: oddly<unknown>('rsa', 'P-256', 'unknown', '', 7, null, ['rsa']),
    typ: oddly<unknown>('JWT', 'at+jwt', 'AT+JWT', 'application/jwt', 'dpop+jwt', '', 7, null),
    crit: oddly<unknown>(['b64'], ['exp'], [], 'b64', null),
    b64: oddly<unknown>(true, false, 'true'),
    zip: oddly('DEF'),
    jku: oddly('https://stranger.example/'),
    cty: oddly('JWT'),
  })
  .map(withoutMissing)

const NOW = TOKEN_TIME_S
const claims = fc
  .record({
    exp: oddly<unknown>(NOW - 60, NOW - 59, NOW - 59.5, NOW + 1, 0, -1, String(NOW + 9), null, Number.POSITIVE_INFINITY, [NOW + 9]),
    nbf: oddly<unknown>(NOW + 60, NOW + 61, NOW, '0', null, Number.POSITIVE_INFINITY),
    iat: oddly<unknown>(NOW + 9999, NOW, '0', null, Number.POSITIVE_INFINITY),
    aud: oddly<unknown>('web', ['web', 'x'], ['x', 'api'], [], ['x'], [['api']], null, 7, { api: 1 }, '*'),
    sub: oddly<unknown>('', 7, null, ['alice'], 'a'.repeat(1024), 'a'.repeat(1025), 'a\n', 'a\u200b', '\ud800', 'Zoë'),
    iss: oddly<unknown>(USUAL.issuer, EVERY.issuer, 'https://usual.example', 'https://other.example/', [USUAL.issuer], null, 7),
    deep: oddly<unknown>(JSON.parse(`${'['.repeat(500)}${']'.repeat(500)}`), { a: { b: [1, 2, { c: 'd' }] } }, 1.2345678901234567e19),
  })
  .map(withoutMissing)

function withoutMissing(record: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined))
}

const recipe: fc.Arbitrary<Recipe> = fc
  .record({
    entry: fc.constantFrom(USUAL, EVERY),
    algorithm: fc.constantFrom(...JWT_ALGORITHMS),
    other: oddly('usual', 'every', 'stranger'),
    header,
    claims,
  })
  .map(({ other, ...rest }) => ({ ...rest, signer: other ?? rest.entry.name }))

const plainRecipe: fc.Arbitrary<Recipe> = fc
  .record({ entry: fc.constantFrom(USUAL, EVERY), algorithm: fc.constantFrom(...JWT_ALGORITHMS) })
  .map((rest) => ({ ...rest, signer: rest.entry.name, header: {}, claims: {} }))

/** Changes the text of a token that was good. */
const mutation: fc.Arbitrary<(token: string) => string> = fc
  .record({
    at: fc.nat(),
    character: fc.constantFrom(...'AaZz09-_.=+/ \n\t~\u0141'),
    what: fc.nat(9),
    length: fc.integer({ min: 1, max: 40 }),
  })
  .map(({ at, character, what, length }) => (token) => {
    const i = at % (token.length + 1)
    // A change before this one may have taken a dot, or everything.
    const parts = token.split('.')
    const j = at % 3
    if (what < 3) return `${token.slice(0, i)}${character}${token.slice(i + 1)}`
    if (what === 3) return `${token.slice(0, i)}${character}${token.slice(i)}`
    if (what === 4) return token.slice(0, -length)
    if (what === 5) return token + character.repeat(length)
    if (what === 6) return parts.map((part, index) => (index === j ? `${part}${'='.repeat((4 - (part.length % 4)) % 4)}` : part)).join('.')
    if (what === 7)
      return parts.map((part, index) => (index === j ? `${part.slice(0, -1)}${nextLetter(part.at(-1) ?? 'A')}` : part)).join('.')
    if (what === 8) return [parts[0], parts[1], encoded(randomBytes(Buffer.from(parts[2] ?? '', 'base64url').length))].join('.')
    return parts.map((part, index) => (index === j ? '' : part)).join('.')
  })

/** Changes the last bits, which are spare in most parts. */
function nextLetter(letter: string): string {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  return digits[digits.indexOf(letter) ^ 1]!
}

test('tokens with odd headers, claims and signers get the verdict of jose, or a rule says why not', async () => {
  const seen = { both: 0, neither: 0, stricter: 0 }
  await fc.assert(
    fc.asyncProperty(recipe, async (one) => {
      const verdict = await compare(make(one))
      expect(verdict).not.toEqual([])
      seen[typeof verdict === 'string' ? verdict : 'stricter']++
    }),
    { numRuns: sized(30, 3600) },
  )
  expect(seen.both).toBeGreaterThan(0)
  expect(seen.neither).toBeGreaterThan(0)
})

test('tokens whose text was changed get the verdict of jose, or a rule says why not', async () => {
  await fc.assert(
    fc.asyncProperty(plainRecipe, fc.array(mutation, { minLength: 1, maxLength: 2 }), async (one, mutations) => {
      const token = make(one)
      // It is remembered, unless the entry does not accept its algorithm.
      await compare(token)
      expect(await compare(mutations.reduce((text, mutate) => mutate(text), token))).not.toEqual([])
    }),
    { numRuns: sized(30, 3600) },
  )
})

test.each(JWT_ALGORITHMS)('%s is accepted by both where the entry allows it', async (algorithm) => {
  for (const entry of [USUAL, EVERY]) {
    const isAllowed = (entry.algorithms ?? USUAL_ALGORITHMS).includes(algorithm)
    const token = make({ entry, algorithm, signer: entry.name, header: {}, claims: {} })
    expect(await compare(token)).toBe(isAllowed ? 'both' : 'neither')
  }
})

describe('a token made to deceive is refused by both, or here by a rule:', () => {
  const good: Recipe = { entry: USUAL, algorithm: 'RS256', signer: 'usual', header: {}, claims: {} }
  const elliptic: Recipe = { ...good, algorithm: 'ES256' }
  const [CRIT, TWICE, BOM] = ['no crit and no b64', 'no object has a name twice', 'JSON does not begin with a byte order mark']
  const SPELLING = 'each part has one spelling: no padding, white space or spare bits'

  /** The same signed parts with another signature. */
  const signedWith = (signature: Buffer, by = elliptic): string => `${make(by).split('.', 2).join('.')}.${encoded(signature)}`
  const hmac = (secret: string | Buffer, alg = 'HS256'): string => {
    const signed = make(good, json({ alg, kid: 'rsa' }))
      .split('.', 2)
      .join('.')
    return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
  }
  const pem = (type: 'spki' | 'pkcs1'): string => keyOf('usual', 'rsa').publicKey.export({ type, format: 'pem' }) as string
  const der = (): Buffer => keyOf('usual', 'rsa').publicKey.export({ type: 'spki', format: 'der' })
  const order = Buffer.from('ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551', 'hex')
  const one = Buffer.concat([Buffer.alloc(31), Buffer.of(1)])
  /** What RSA would make of a signature by a key with the exponent 1: the padded digest itself (RFC 8017 9.2). */
  const padded = (signed: string): Buffer => {
    const digest = Buffer.concat([
      Buffer.from('3031300d060960864801650304020105000420', 'hex'),
      createHash('sha256').update(signed).digest(),
    ])
    return Buffer.concat([Buffer.of(0, 1), Buffer.alloc(256 - 3 - digest.length, 0xff), Buffer.of(0), digest])
  }

  const cases: [string, () => string, string?][] = [
    ['HS256 with the public key in PEM as the secret', () => hmac(pem('spki'))],
    ['HS256 with that PEM without its last line break', () => hmac(pem('spki').trimEnd())],
    ['HS256 with the PEM of PKCS #1', () => hmac(pem('pkcs1'))],
    ['HS256 with the public key in DER', () => hmac(der())],
    ['HS256 with an empty secret', () => hmac('')],
    ['HMAC that says RS256', () => hmac(pem('spki'), 'RS256')],
    ['none without a signature', () => `${make(good, '{"alg":"none"}').split('.', 2).join('.')}.`],
    ['None', () => `${make(good, '{"alg":"None"}').split('.', 2).join('.')}.`],
    ['none with a signature', () => make(good, '{"alg":"none"}')],
    ['RS256 without a signature', () => `${make(good).split('.', 2).join('.')}.`],
    ['its own key in the header', () => make({ ...good, signer: 'stranger', header: { jwk: jwkOf(keyOf('stranger', 'rsa')) } })],
    [
      'its own key and no kid',
      () => make({ ...good, signer: 'stranger', header: { kid: undefined, jwk: jwkOf(keyOf('stranger', 'rsa')) } }),
    ],
    ['an issuer whose key it is not', () => make({ ...good, signer: 'every' })],
    ['another issuer than its key has', () => make({ ...good, entry: EVERY, signer: 'usual' })],
    ['the kid of a key for another algorithm', () => make({ ...good, header: { kid: 'P-256' } })],
    ['an ECDSA signature of zeros', () => signedWith(Buffer.alloc(64))],
    ['an ECDSA signature with r = 0', () => signedWith(Buffer.concat([Buffer.alloc(32), one]))],
    ['an ECDSA signature with s = 0', () => signedWith(Buffer.concat([one, Buffer.alloc(32)]))],
    ['an ECDSA signature of the order', () => signedWith(Buffer.concat([order, order]))],
    ['an empty ECDSA signature', () => signedWith(Buffer.alloc(0))],
    ['an ECDSA signature in DER', () => signedWith(Buffer.from('3006020101020101', 'hex'))],
    ['a signature of P-384 that says ES256', () => make({ ...good, algorithm: 'ES384', header: { alg: 'ES256' } })],
    ['an EdDSA signature of zeros', () => signedWith(Buffer.alloc(64), { ...good, algorithm: 'EdDSA' })],
    ['a signature with a byte less', () => signedWith(Buffer.from(make(elliptic).split('.')[2]!, 'base64url').subarray(0, 63))],
    [
      'a signature with a byte more',
      () => signedWith(Buffer.concat([Buffer.from(make(good).split('.')[2]!, 'base64url'), Buffer.of(0)]), good),
    ],
    ['a key of 1024 bits', () => make({ ...good, entry: WEAK, signer: 'stranger', header: { kid: 'short' } })],
    ['a forgery for a key with the exponent 1', () => forgery(), 'the exponent of an RSA key is odd, at least 3 and at most 2^32'],
    ['two algorithms, the second good', () => make(good, '{"alg":"none","alg":"RS256","kid":"rsa"}'), TWICE],
    ['two algorithms, the first good', () => make(good, '{"alg":"RS256","alg":"none","kid":"rsa"}')],
    ['two algorithms, one escaped', () => make(good, '{"alg":"none","\\u0061lg":"RS256","kid":"rsa"}'), TWICE],
    ['two subjects', () => make(good, undefined, `{"sub":"bob",${claimsOf(good).slice(1)}`), TWICE],
    ['a byte order mark before the header', () => make(good, `\ufeff${headerOf(good)}`), BOM],
    ['a byte order mark before the claims', () => make(good, undefined, `\ufeff${claimsOf(good)}`), BOM],
    ['a critical b64 that is true', () => make({ ...good, header: { crit: ['b64'], b64: true } }), CRIT],
    ['a critical b64 that is false', () => make({ ...good, header: { crit: ['b64'], b64: false } })],
    ['b64 that nothing makes critical', () => make({ ...good, header: { b64: false } }), CRIT],
    ['an unknown critical field', () => make({ ...good, header: { crit: ['exp'], exp: 1 } })],
    ['padding after the signature', () => `${make(good)}==`, SPELLING],
    ['spare bits in the signature', () => make(good).replace(/.$/, (last) => nextLetter(last)), SPELLING],
    ['a space in the signature', () => make(good).replace(/.$/, ' $&'), SPELLING],
    ['five parts', () => `${encoded('{"alg":"RSA-OAEP","enc":"A256GCM"}')}.AQI.AQI.AQI.AQI`],
    ['five parts that say RS256', () => `${make(good)}.AQI.AQI`],
    ['a list for a header', () => make(good, '[{"alg":"RS256"}]')],
    ['a list for claims', () => make(good, undefined, `[${claimsOf(good)}]`)],
    ['an algorithm in a prototype', () => make(good, '{"__proto__":{"alg":"RS256"},"kid":"rsa"}')],
    [
      'more than 32,768 characters',
      () => make({ ...good, claims: { filler: 'x'.repeat(32_768) } }),
      'a token has at most 32,768 characters',
    ],
  ]

  function forgery(): string {
    const signed = make({ ...good, entry: WEAK, signer: 'stranger', header: { kid: 'one' } })
      .split('.', 2)
      .join('.')
    return `${signed}.${encoded(padded(signed))}`
  }

  test.each(cases)('%s', async (_name, deceive, rule) => {
    expect(await compare(deceive())).toEqual(rule === undefined ? 'neither' : [rule])
  })

  test.each<[string, () => string]>([
    ['white space in JSON', () => make(good, ` {\n"alg" :\t"RS256", "kid":"rsa"} `)],
    ['an escaped name', () => make(good, '{"\\u0061lg":"RS256","kid":"rsa"}')],
    ['an escaped value', () => make(good, '{"alg":"RS\\u003256","kid":"rsa"}')],
    ['no kid where one key has the algorithm', () => make({ ...good, header: { kid: undefined } })],
    [
      'a key of somebody else in the header',
      () => make({ ...good, header: { jwk: jwkOf(keyOf('stranger', 'rsa')), jku: 'https://stranger.example/' } }),
    ],
    ['lists within lists', () => make(good, undefined, `${claimsOf(good).slice(0, -1)},"deep":${'['.repeat(5000)}${']'.repeat(5000)}}`)],
  ])('and %s deceives nobody: both accept it', async (_name, write) => {
    expect(await compare(write())).toBe('both')
  })
})
