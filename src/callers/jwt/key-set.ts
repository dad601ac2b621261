import { createPublicKey, constants as cryptoConstants, hash, type KeyObject, type VerifyKeyObjectInput, verify } from 'node:crypto'
import type { JwtAlgorithm } from '../../policy/schema/callers.ts'
import { findRepeatedName } from '../../text/json-document.ts'

const MAX_KEY_SET_BYTES = 1_048_576
const MAX_KEYS = 100
/** Verification takes time that grows with the square of it: 8192 bits take about a millisecond. */
const MIN_RSA_BITS = 2048
const MAX_RSA_BITS = 8192
/** With the exponent 1 every signature is its own message. Large exponents are slow, and nobody uses them. */
const MIN_RSA_EXPONENT = 3n
const MAX_RSA_EXPONENT = 2n ** 32n

/**
 * What a key set says, as data that can be sent to another thread. Making a key object takes 2 ms for a key on P-521, so a worker must not do it for
 * 100 of them: the thread that fetches a set makes them, and sends them along.
 */
export interface PublishedKeys {
  /** The same for sets with the same usable keys, however they are written. */
  readonly version: string
  readonly usable: readonly UsableKey[]
  /** Why other keys are not used, a sentence for each. They quote nothing of the set. */
  readonly unused: readonly string[]
  /** Every `kid`, also of keys that are not used. */
  readonly kids: readonly string[]
}

interface UsableKey {
  readonly kid: string | undefined
  readonly algorithms: readonly JwtAlgorithm[]
  readonly key: KeyObject
  readonly fingerprint: string
}

/** Reads a JSON Web Key Set (RFC 7517 5). What is not a key set is a problem; a key that cannot be used is left out, and the others are used. */
export function readKeySet(text: string): PublishedKeys | { readonly problem: string } {
  if (Buffer.byteLength(text) > MAX_KEY_SET_BYTES) return { problem: `the key set is longer than ${MAX_KEY_SET_BYTES} bytes` }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { problem: 'the key set is not JSON' }
  }
  const keys = (value as { keys?: unknown } | null)?.keys
  if (!Array.isArray(keys)) return { problem: 'the key set is not an object with "keys", a list of keys' }
  if (keys.length > MAX_KEYS) return { problem: `the key set has ${keys.length} keys; at most ${MAX_KEYS} are accepted` }
  if (findRepeatedName(text) !== undefined) return { problem: 'the key set has a name twice in one object' }
  const read = keys.map(readKey)
  const usable = read.filter((key) => typeof key !== 'string')
  const written = usable.map(({ kid, algorithms, fingerprint }) => JSON.stringify([kid ?? null, algorithms, fingerprint]))
  return {
    version: hash('sha256', written.sort().join('\n')),
    usable,
    unused: read.flatMap((why, i) => (typeof why === 'string' ? [`keys[${i}] is not used: ${why}`] : [])),
    kids: keys.map((jwk: Jwk | null | undefined) => jwk?.['kid']).filter((kid) => typeof kid === 'string'),
  }
}

/** How an algorithm verifies, and which keys it takes. */
interface Algorithm {
  readonly kty: 'RSA' | 'EC' | 'OKP'
  readonly curves: readonly string[]
  /** EdDSA hashes by itself. */
  readonly hash: string | undefined
  readonly options: Omit<VerifyKeyObjectInput, 'key'>
}

const ALGORITHMS = new Map<JwtAlgorithm, Algorithm>([
  ['RS256', rsa('sha256')],
  ['RS384', rsa('sha384')],
  ['RS512', rsa('sha512')],
  ['PS256', rsaPss('sha256', 32)],
  ['PS384', rsaPss('sha384', 48)],
  ['PS512', rsaPss('sha512', 64)],
  ['ES256', ecdsa('sha256', 'P-256')],
  ['ES384', ecdsa('sha384', 'P-384')],
  ['ES512', ecdsa('sha512', 'P-521')],
  ['EdDSA', { kty: 'OKP', curves: ['Ed25519', 'Ed448'], hash: undefined, options: {} }],
])

function rsa(digest: string): Algorithm {
  return { kty: 'RSA', curves: [], hash: digest, options: { padding: cryptoConstants.RSA_PKCS1_PADDING } }
}

function rsaPss(digest: string, saltLength: number): Algorithm {
  return { kty: 'RSA', curves: [], hash: digest, options: { padding: cryptoConstants.RSA_PKCS1_PSS_PADDING, saltLength } }
}

/** Signatures are both numbers in a row (RFC 7518 3.4), not DER. */
function ecdsa(digest: string, curve: string): Algorithm {
  return { kty: 'EC', curves: [curve], hash: digest, options: { dsaEncoding: 'ieee-p1363' } }
}

/** A member of `keys`. Its parameters are checked where they are used. */
type Jwk = Readonly<Record<string, unknown>>

/** Two keys that differ answer to one name. */
const AMBIGUOUS = Symbol('ambiguous')

/** The keys of an issuer, by what tokens say of the key that signed them. */
export class KeySet {
  readonly version: string
  /** The number of usable keys. A set without any is a set too: its issuer has withdrawn all keys. */
  readonly size: number
  readonly #kids: ReadonlySet<string>
  /** By algorithm, for tokens without a `kid`, and by algorithm and `kid`. */
  readonly #keys = new Map<string, VerifyingKey | typeof AMBIGUOUS>()

  constructor({ version, usable, kids }: PublishedKeys) {
    this.version = version
    this.size = usable.length
    this.#kids = new Set(kids)
    for (const { kid, algorithms, key, fingerprint } of usable)
      for (const algorithm of algorithms) this.#add(kid, algorithm, new VerifyingKey(key, algorithm, fingerprint))
  }

  /**
   * Returns the key for a token. Without `kid` it is the only one for the algorithm, because an issuer with several must say which it used
   * (OpenID Connect Core 10.1). Two different keys for one algorithm with the same `kid` are ambiguous, and neither is returned.
   */
  find(kid: string | undefined, algorithm: JwtAlgorithm): VerifyingKey | undefined {
    const key = this.#keys.get(nameOf(kid, algorithm))
    return key === AMBIGUOUS ? undefined : key
  }

  /** Whether any key has this `kid`, usable or not. If one has, fetching the set again would not help. */
  has(kid: string): boolean {
    return this.#kids.has(kid)
  }

  #add(kid: string | undefined, algorithm: JwtAlgorithm, key: VerifyingKey): void {
    for (const name of new Set([nameOf(undefined, algorithm), nameOf(kid, algorithm)])) {
      const other = this.#keys.get(name)
      const isSame = other === undefined || (other !== AMBIGUOUS && other.fingerprint === key.fingerprint)
      this.#keys.set(name, isSame ? key : AMBIGUOUS)
    }
  }
}

function nameOf(kid: string | undefined, algorithm: JwtAlgorithm): string {
  return kid === undefined ? algorithm : `${algorithm} ${kid}`
}

/** Returns the key, or why it is not used. */
function readKey(jwk: unknown): UsableKey | string {
  if (typeof jwk !== 'object' || jwk === null || Array.isArray(jwk)) return 'it is not an object'
  const { kty, kid, use, key_ops, ext, alg, crv } = jwk as Jwk
  if (kid !== undefined && typeof kid !== 'string') return 'its "kid" is not a text'
  if (kty !== 'RSA' && kty !== 'EC' && kty !== 'OKP') return 'its "kty" is not RSA, EC or OKP'
  if (PRIVATE_MEMBERS.some((name) => Object.hasOwn(jwk, name))) return 'it is a private key. Publish only its public half'
  if (use !== undefined && use !== 'sig') return 'its "use" is not "sig"'
  if (key_ops !== undefined && !(Array.isArray(key_ops) && key_ops.length === 1 && key_ops[0] === 'verify'))
    return 'its "key_ops" is not ["verify"]'
  if (ext !== undefined && typeof ext !== 'boolean') return 'its "ext" is neither true nor false'
  const algorithms = [...ALGORITHMS].filter(
    ([name, { kty: type, curves }]) =>
      type === kty && (alg === undefined || alg === name) && (type === 'RSA' || curves.includes(crv as string)),
  )
  if (algorithms.length === 0) return 'no accepted algorithm has its "alg" or "crv"'
  const key = publicKey(jwk as Jwk, kty)
  if (typeof key === 'string') return key
  const fingerprint = hash('sha256', JSON.stringify(key.export({ format: 'jwk' })))
  return { kid, algorithms: algorithms.map(([name]) => name), key, fingerprint }
}

/** RFC 7518 6.2.2 and 6.3.2. */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']

function publicKey(jwk: Jwk, kty: 'RSA' | 'EC' | 'OKP'): KeyObject | string {
  const { n, e, crv, x, y } = jwk
  let key: KeyObject
  try {
    // Only the material is handed over. Node checks that a point lies on its curve.
    key = createPublicKey({ key: kty === 'RSA' ? { kty, n, e } : { kty, crv, x, y }, format: 'jwk' } as Parameters<
      typeof createPublicKey
    >[0])
  } catch {
    return `it is not a valid ${kty} key`
  }
  const { modulusLength: bits, publicExponent: exponent } = key.asymmetricKeyDetails!
  if (bits === undefined || exponent === undefined) return key
  if (bits < MIN_RSA_BITS || bits > MAX_RSA_BITS)
    return `it is an RSA key of ${bits} bits. Between ${MIN_RSA_BITS} and ${MAX_RSA_BITS} are accepted`
  if (exponent < MIN_RSA_EXPONENT || exponent > MAX_RSA_EXPONENT || exponent % 2n === 0n)
    return 'its exponent is not an odd number between 3 and 2^32'
  return key
}

/** A key for one algorithm. */
export class VerifyingKey {
  /** The same for the same key material, in whichever set it is. */
  readonly fingerprint: string
  readonly #hash: string | undefined
  readonly #input: VerifyKeyObjectInput
  /** Of RSA, whose signatures are as long as the modulus (RFC 8017). OpenSSL takes a PSS signature without its leading zeros, too. */
  readonly #signatureBytes: number | undefined

  constructor(key: KeyObject, algorithm: JwtAlgorithm, fingerprint: string) {
    const { hash: digest, options } = ALGORITHMS.get(algorithm)!
    this.fingerprint = fingerprint
    this.#hash = digest
    this.#input = { key, ...options }
    const { modulusLength: bits } = key.asymmetricKeyDetails!
    this.#signatureBytes = bits === undefined ? undefined : Math.ceil(bits / 8)
  }

  verifies(signed: Buffer, signature: Buffer): boolean {
    const hasLength = this.#signatureBytes === undefined || signature.length === this.#signatureBytes
    return hasLength && verify(this.#hash, signed, this.#input, signature)
  }
}
