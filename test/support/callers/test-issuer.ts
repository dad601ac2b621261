import { constants as cryptoConstants, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { JwtAlgorithm, JwtEntry } from '../../../src/policy/schema/callers.ts'

/** A key pair with the algorithms that it may sign with. */
export interface TestKey {
  readonly kid: string
  readonly privateKey: KeyObject
  readonly publicKey: KeyObject
}

export type KeyKind = 'rsa' | 'short-rsa' | 'P-256' | 'P-384' | 'P-521' | 'ed25519' | 'ed448'

export function testKey(kind: KeyKind, kid: string = kind): TestKey {
  return { kid, ...keyPair(kind) }
}

function keyPair(kind: KeyKind): { privateKey: KeyObject; publicKey: KeyObject } {
  if (kind === 'rsa' || kind === 'short-rsa') return generateKeyPairSync('rsa', { modulusLength: kind === 'rsa' ? 2048 : 1024 })
  if (kind === 'ed25519') return generateKeyPairSync('ed25519')
  if (kind === 'ed448') return generateKeyPairSync('ed448')
  return generateKeyPairSync('ec', { namedCurve: kind })
}

/** The public key as a member of a key set. */
export function jwkOf({ kid, publicKey }: TestKey, more: object = {}): Record<string, unknown> {
  return { ...publicKey.export({ format: 'jwk' }), kid, ...more }
}

/** A key set as its issuer publishes it. */
export function keySetText(...keys: readonly unknown[]): string {
  return JSON.stringify({ keys })
}

/** Signs a token; parts that are texts are taken as they are, so that they can be wrong. */
export function signedToken(algorithm: JwtAlgorithm, key: TestKey, claims: object | string, header: object | string = {}): string {
  const head = typeof header === 'string' ? header : JSON.stringify({ alg: algorithm, kid: key.kid, ...header })
  const signed = `${encoded(head)}.${encoded(typeof claims === 'string' ? claims : JSON.stringify(claims))}`
  return `${signed}.${signatureOf(algorithm, key.privateKey, Buffer.from(signed)).toString('base64url')}`
}

export function encoded(text: string | Buffer): string {
  return Buffer.from(text as string).toString('base64url')
}

export function signatureOf(algorithm: JwtAlgorithm, key: KeyObject, signed: Buffer): Buffer {
  const hash = algorithm === 'EdDSA' ? undefined : `sha${algorithm.slice(2)}`
  const isPss = algorithm.startsWith('PS')
  return sign(hash, signed, {
    key,
    dsaEncoding: 'ieee-p1363',
    ...(isPss ? { padding: cryptoConstants.RSA_PKCS1_PSS_PADDING, saltLength: Number(algorithm.slice(2)) / 8 } : {}),
  })
}

/** An entry of `callers.jwt` as parsing a bundle leaves it. */
export function jwtEntry(more: Partial<JwtEntry> = {}): JwtEntry {
  const entry = { name: 'idp', issuer: 'https://idp.example/', audiences: ['api'], jwks_file: 'idp.json' }
  return { ...entry, clock_skew_seconds: 60, labels: {}, ...more }
}

/** Claims that `jwtEntry` accepts at `TOKEN_TIME_S`. */
export function goodClaims(more: object = {}): Record<string, unknown> {
  return { iss: 'https://idp.example/', aud: 'api', sub: 'alice', exp: TOKEN_TIME_S + 3600, ...more }
}

export const TOKEN_TIME_S = 1_800_000_000
