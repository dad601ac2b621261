import { type FieldValue, REPEATED, type RequestView } from './view.ts'

const PREFIX = 'bearer '

/** Characters that some backends take for white space. Of the control characters below a space, only tabs occur in field values. */
const SPACES = [' ', '\t', '\x85', '\xa0']
const WHITE_SPACE = /[\s\x85]+/

/**
 * Returns the token of `Bearer <token>`, the scheme in any case, without white space around the token (RFC 9110 11.4, RFC 6750 2.1).
 * Returns undefined for other schemes and without a token. Several words after the scheme count as a repeated token, because backends
 * differ in which of them they read. A JWT is returned in one spelling, whichever of those that backends accept for it was sent.
 */
export function bearerToken(authorization: FieldValue): FieldValue {
  const token = sentToken(authorization)
  return typeof token === 'string' ? asOneSpelling(token) : token
}

/** Returns a token that an operator wrote in the form that `bearerToken` returns. */
export function spelledToken(token: string): string {
  const spelled = asOneSpelling(token)
  return spelled === REPEATED ? token : spelled!
}

/** Fields in which SDKs of LLM APIs send their key, if not as a bearer token: Anthropic's, Azure's and Google's. */
export const LLM_KEY_FIELDS = ['x-api-key', 'api-key', 'x-goog-api-key'] as const

/** Returns the credential of a call of an LLM API, wherever its SDK puts it. If there are two, nobody knows which of them the provider reads. */
export function llmKey(view: RequestView): FieldValue {
  let only = bearerToken(view.header('authorization')) || undefined
  for (const name of LLM_KEY_FIELDS) {
    const value = view.header(name) || undefined
    if (value === undefined) continue
    if (only !== undefined && value !== only) return REPEATED
    only = value
  }
  return only
}

/** Returns the bearer token as it was sent. Claims are read from it, since no spelling of the signature changes them. */
export function sentToken(authorization: FieldValue): FieldValue {
  if (typeof authorization !== 'string') return authorization
  // In the usual spelling, a native search for a few characters is much cheaper than a regular expression.
  if (authorization.slice(0, PREFIX.length).toLowerCase() === PREFIX && !hasSpace(authorization, PREFIX.length))
    return authorization.slice(PREFIX.length) || undefined
  const words = authorization.split(WHITE_SPACE).filter((word) => word !== '')
  if (words[0]?.toLowerCase() !== 'bearer') return undefined
  return words.length > 2 ? REPEATED : words[1]
}

/** The first part of every JWT begins with a brace and a quotation mark or white space, which looks like this in base64url. */
const JWT_START = /^e(?:y[ABIJ]|w[klop01])/
/** The length of the shortest signature, of 16 bytes, in base64url. A shorter part may be a word of some other token format. */
const MIN_SIGNATURE = 22
const BASE64URL = /^[\w-]+$/

/**
 * Brings a JWT to one spelling. Backends compare the bytes of its signature, which have several spellings: the last character has spare bits,
 * `=` may follow it, and `+/` may replace `-_`. An ECDSA signature has a twin, which anybody can compute (`withLowS`). The parts before the signature are signed as they are spelled. In an encrypted JWT, all
 * parts but the first have several spellings. Some backends skip any number of other characters, so a token that has one counts as repeated.
 */
function asOneSpelling(token: string): FieldValue {
  if (!JWT_START.test(token)) return token
  const first = token.indexOf('.')
  const second = first < 0 ? -1 : token.indexOf('.', first + 1)
  if (second < 0) return token
  // Nearly all tokens have this spelling already, and are neither split nor copied.
  if (token.indexOf('.', second + 1) < 0 && isUsual(token.slice(second + 1))) return withLowS(token, first, second)
  const parts = token.split('.', 6)
  const from = parts.length === 3 ? 2 : parts.length === 5 ? 1 : parts.length
  if (from === parts.length || (parts.length === 3 && parts[2]!.length < MIN_SIGNATURE)) return token
  for (let i = from; i < parts.length; i++) {
    const part = parts[i]!
    if (part === '') continue
    const plain = BASE64URL.test(part)
      ? part
      : part
          .replace(/={1,2}$/, '')
          .replaceAll('+', '-')
          .replaceAll('/', '_')
    // A single left-over character stands for no byte, and some libraries skip it.
    if (!BASE64URL.test(plain) || plain.length % 4 === 1) return REPEATED
    parts[i] = withoutSpareBits(plain)
  }
  return parts.length === 3 ? withLowS(parts.join('.'), first, second) : parts.join('.')
}

/** The order of the group in which an algorithm signs (SEC 2; RFC 7518 3.4, RFC 8812 3.2). A signature is two numbers of as many bytes. */
const ORDERS: ReadonlyMap<unknown, Buffer> = new Map(
  Object.entries({
    ES256: 'ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551',
    ES256K: 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141',
    ES384: 'ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973',
    ES512:
      '01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409',
  }).map(([algorithm, order]) => [algorithm, Buffer.from(order, 'hex')]),
)
/** Signatures of 64, 96 and 132 bytes. */
const ECDSA_CHARACTERS = [86, 128, 176]

/**
 * An ECDSA signature (r, s) is good for exactly the tokens for which (r, n − s) is, and issuers choose either of the two. Returns the token with the
 * smaller s. It begins at the start, and its first and second dot are given.
 */
function withLowS(token: string, first: number, second: number): string {
  if (!ECDSA_CHARACTERS.includes(token.length - second - 1)) return token
  const order = ORDERS.get(algorithmOf(token.slice(0, first)))
  const signature = Buffer.from(token.slice(second + 1), 'base64url')
  if (order === undefined || signature.length !== 2 * order.length) return token
  const s = signature.subarray(order.length)
  const twin = Buffer.allocUnsafe(order.length)
  let borrow = 0
  for (let i = order.length - 1; i >= 0; i--) {
    const difference = order[i]! - s[i]! - borrow
    twin[i] = difference
    borrow = difference < 0 ? 1 : 0
  }
  // One above the order is no signature.
  if (borrow === 1 || s.compare(twin) <= 0) return token
  s.set(twin)
  return `${token.slice(0, second + 1)}${signature.toString('base64url')}`
}

/** What the first part of a JWT says of its signature. It is signed as it is spelled, so a client cannot change it. */
function algorithmOf(header: string): unknown {
  try {
    return (JSON.parse(decodeBase64(header) ?? '') as { readonly alg?: unknown } | null)?.alg
  } catch {
    return undefined
  }
}

/** Uses the decoder, which is much cheaper than a regular expression. It accepts both alphabets and skips other characters, which shows in the length. */
function isUsual(signature: string): boolean {
  const { length } = signature
  if (length < MIN_SIGNATURE || length % 4 === 1) return false
  for (let i = 0; i < OTHER_SPELLINGS.length; i++) if (signature.includes(OTHER_SPELLINGS[i]!)) return false
  return Buffer.from(signature, 'base64url').length === Math.floor((length * 3) / 4) && withoutSpareBits(signature) === signature
}

const OTHER_SPELLINGS = ['+', '/', '=']
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** Clears the bits of the last character that decoders ignore: four if two characters stand for one byte, two if three stand for two bytes. */
function withoutSpareBits(text: string): string {
  const spare = text.length % 4 === 2 ? 0b1111 : text.length % 4 === 3 ? 0b11 : 0
  const digit = DIGITS.indexOf(text.at(-1)!)
  return (digit & spare) === 0 ? text : text.slice(0, -1) + DIGITS[digit & ~spare]
}

function hasSpace(text: string, from: number): boolean {
  for (let i = 0; i < SPACES.length; i++) if (text.indexOf(SPACES[i]!, from) >= 0) return true
  return false
}

/** A token's claims. They are not verified here, because the gateway has done that. */
export type Claims = Readonly<Record<string, unknown>>

// A longer text is not a token. Header limits allow somewhat more, but decoding it would be wasted work.
export const MAX_TOKEN_CHARACTERS = 32_768

/** Reads the payload of a bearer token; returns undefined if it is unreadable. */
export function readClaims(token: string): Claims | undefined {
  const payload = payloadOf(token)
  if (payload === undefined) return undefined
  try {
    const claims: unknown = JSON.parse(keepLongNumbers(payload))
    return typeof claims === 'object' && claims !== null && !Array.isArray(claims) ? (claims as Claims) : undefined
  } catch {
    return undefined // not JSON: the descriptor is reported as missing
  }
}

/** Returns a claim as text. */
export function claimText(claims: Claims, name: string, segments: readonly string[]): string | undefined {
  return scalarText(claimValue(claims, name, segments))
}

/** Returns a claim. A dotted name, of which `segments` are the parts, reaches into objects if no claim has exactly that name. */
export function claimValue(claims: Claims, name: string, segments: readonly string[]): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  if (segments.length < 2) return undefined
  let value: unknown = claims
  for (const segment of segments) {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, segment)) return undefined
    value = (value as Claims)[segment]
  }
  return value
}

/** Decodes the second of two or three parts. The other parts are not read. */
function payloadOf(token: string): string | undefined {
  if (token.length > MAX_TOKEN_CHARACTERS) return undefined
  const start = token.indexOf('.') + 1
  const dot = token.indexOf('.', start)
  if (start === 0 || (dot >= 0 && token.includes('.', dot + 1))) return undefined
  return decodeBase64(token.slice(start, dot < 0 ? undefined : dot))
}

/** Accepts both alphabets, padded or not. The decoder skips invalid characters, which shows in the length. */
function decodeBase64(text: string): string | undefined {
  const end = text.endsWith('==') ? text.length - 2 : text.endsWith('=') ? text.length - 1 : text.length
  if (end % 4 === 1) return undefined // no number of bytes has this length
  const bytes = Buffer.from(text, 'base64')
  return bytes.length === Math.floor((end * 3) / 4) ? bytes.toString('utf8') : undefined
}

// The closing quote is optional: otherwise the search would start again at each quote of a string without an end, in quadratic time.
const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g
const LONG_INTEGER = /^-?\d{16,}$/

/** Turns integers that a double cannot hold into strings; otherwise neighbouring ids would share a bucket. */
export function keepLongNumbers(json: string): string {
  if (!/\d{16}/.test(json)) return json
  return json.replace(STRING_OR_NUMBER, (token) =>
    LONG_INTEGER.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token,
  )
}

/** Returns a text, a finite number or a boolean as text, and undefined for anything else. */
export function scalarText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return typeof value === 'boolean' || Number.isFinite(value) ? String(value) : undefined
}
