import { isUtf8 } from 'node:buffer'
import type { Claims } from '../../request/bearer.ts'
import { findRepeatedName } from '../../text/json-document.ts'

/** A token in the compact form of RFC 7515 7.1, taken apart and not verified. */
export interface CompactJws {
  readonly header: JwsHeader
  /** The claims as JSON, which was parsed once already. */
  readonly payloadText: string
  readonly payload: Claims
  /** What is signed: the first two parts, as they are spelled. */
  readonly signed: Buffer
  readonly signature: Buffer
  /** Whether an object has a name twice. Readers differ in which of the two they take (RFC 7515 4), so such a token is refused. */
  hasRepeatedName(): boolean
}

export interface JwsHeader {
  readonly alg: string
  readonly kid: string | undefined
  /** Whether `typ` is absent or says that this is a JWT, and nothing else must be understood (`crit`, `b64`). Other members are ignored. */
  readonly isPlainJwt: boolean
}

/**
 * Takes a token apart. Each part must have the one spelling that RFC 7515 gives it: no padding, no other alphabet, no bits beyond the last byte.
 * Returns undefined for anything else. The work is linear in the token's length.
 */
export function parseCompactJws(token: string): CompactJws | undefined {
  const first = token.indexOf('.')
  const second = token.indexOf('.', first + 1)
  if (second < 0) return undefined
  const headerText = decodeText(token.slice(0, first))
  const header = headerText === undefined ? undefined : readHeader(headerText)
  if (header === undefined) return undefined
  // A third dot would be in the signature, where it is not a digit of base64url. So encrypted tokens, which have five parts, are refused as well.
  const signature = decodeBase64url(token.slice(second + 1))
  const payloadText = decodeText(token.slice(first + 1, second))
  const payload = payloadText === undefined ? undefined : parseObject(payloadText)
  if (signature === undefined || payload === undefined) return undefined
  return {
    header,
    payloadText: payloadText!,
    payload,
    signed: Buffer.from(token.slice(0, second), 'latin1'),
    signature,
    hasRepeatedName: () => findRepeatedName(headerText!) !== undefined || findRepeatedName(payloadText!) !== undefined,
  }
}

function readHeader(text: string): JwsHeader | undefined {
  const header = parseObject(text)
  if (header === undefined) return undefined
  const { alg, kid } = header
  if (typeof alg !== 'string' || !(kid === undefined || typeof kid === 'string')) return undefined
  const isPlainJwt = isJwtType(header['typ']) && !Object.hasOwn(header, 'crit') && !Object.hasOwn(header, 'b64')
  return { alg, kid, isPlainJwt }
}

/** RFC 7519 5.1 and RFC 9068 2.1. Media types have no case, and `application/` may be left out (RFC 7515 4.1.9). */
const JWT_TYPE = /^(?:application\/)?(?:at\+)?jwt$/i

function isJwtType(typ: unknown): boolean {
  return typ === undefined || (typeof typ === 'string' && JWT_TYPE.test(typ))
}

function decodeText(part: string): string | undefined {
  const bytes = decodeBase64url(part)
  return bytes !== undefined && isUtf8(bytes) ? bytes.toString('utf8') : undefined
}

/** The decoder of Node skips what it does not know, and ignores spare bits. Only the one proper spelling is what the bytes are encoded to. */
function decodeBase64url(part: string): Buffer | undefined {
  const bytes = Buffer.from(part, 'base64url')
  return bytes.toString('base64url') === part ? bytes : undefined
}

function parseObject(json: string): Claims | undefined {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Claims) : undefined
  } catch {
    return undefined // not JSON: the token is malformed
  }
}
