import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import { decodeName, encodeName, NAME_BYTES, type ReservationName } from './reservation-name.ts'

/** A newer layout gets another number. */
const VERSION = 1
const HEAD_BYTES = 1 + NAME_BYTES
const TAG_BYTES = 16
const CIPHER = 'aes-256-gcm'
/** Each token has a key of its own, which seals nothing else. */
const NONCE = Buffer.alloc(12)

/** Header fields are bounded by many gateways: a token stays well below 4 KiB. */
const MAX_TOKEN_BYTES = 3000
const MAX_TOKEN_CHARACTERS = Math.ceil((MAX_TOKEN_BYTES * 4) / 3)

/**
 * A token: version and name, readable; then the content, encrypted, and authenticated together with them. Its key is made of the name, which is
 * never given out twice. Gateways may pass the token on, so nobody may learn from it who is limited how.
 *
 * Returns undefined where it would be too large.
 */
export function sealToken(key: Uint8Array, name: ReservationName, content: Buffer): string | undefined {
  if (HEAD_BYTES + content.length + TAG_BYTES > MAX_TOKEN_BYTES) return undefined
  const head = Buffer.concat([Buffer.of(VERSION), encodeName(name)])
  const cipher = createCipheriv(CIPHER, keyOf(key, head), NONCE).setAAD(head)
  return Buffer.concat([head, cipher.update(content), cipher.final(), cipher.getAuthTag()]).toString('base64url')
}

/** Undefined where the token was not sealed with this key, or was changed since. */
export function openToken(key: Uint8Array, token: string): { readonly name: ReservationName; readonly content: Buffer } | undefined {
  if (token.length > MAX_TOKEN_CHARACTERS) return undefined
  const bytes = Buffer.from(token, 'base64url')
  // Only one spelling: a reservation is known by its token.
  if (bytes.length < HEAD_BYTES + TAG_BYTES || bytes[0] !== VERSION || bytes.toString('base64url') !== token) return undefined
  const head = bytes.subarray(0, HEAD_BYTES)
  const decipher = createDecipheriv(CIPHER, keyOf(key, head), NONCE, { authTagLength: TAG_BYTES })
  decipher.setAAD(head).setAuthTag(bytes.subarray(bytes.length - TAG_BYTES))
  const content = decipher.update(bytes.subarray(HEAD_BYTES, bytes.length - TAG_BYTES))
  try {
    // Compares in constant time.
    decipher.final()
  } catch {
    return undefined
  }
  return { name: decodeName(head.subarray(1)), content }
}

function keyOf(key: Uint8Array, head: Buffer): Buffer {
  return createHmac('sha256', key).update(head).digest()
}
