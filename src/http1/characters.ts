import { TOKEN } from '../text/formats.ts'

/** 1 for the bytes of a token (RFC 9110 5.6.2). */
const IS_TOKEN = tableOf((byte) => (TOKEN.test(String.fromCharCode(byte)) ? 1 : 0))

/** 1 for the bytes of a field's value (RFC 9110 5.5), except for tabs, which are left to `node:http`. */
const IS_VALUE = tableOf((byte) => ((byte >= 0x20 && byte <= 0x7e) || byte >= 0x80 ? 1 : 0))

/** 1 for the bytes of a target (RFC 3986 3.3, 3.4) and other printable ASCII except `#`, which is left to `node:http` like all other bytes. */
const IS_TARGET = tableOf((byte) => (byte >= 0x21 && byte <= 0x7e && byte !== 0x23 ? 1 : 0))

/** The value of each byte as a hexadecimal digit, or -1. */
export const HEX_VALUES = Int8Array.from({ length: 256 }, (_, byte) => '0123456789abcdef'.indexOf(String.fromCharCode(byte).toLowerCase()))

/** The lower case of each ASCII letter; any other byte is unchanged. */
const LOWER = tableOf((byte) => (byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte))

/** Returns where the token that begins at `at` ends, at most `limit`. */
export function endOfToken(bytes: Uint8Array, at: number, limit: number): number {
  return endOfRun(IS_TOKEN, bytes, at, limit)
}

/** Returns where the value that begins at `at` ends, at most `limit`. */
export function endOfValue(bytes: Uint8Array, at: number, limit: number): number {
  return endOfRun(IS_VALUE, bytes, at, limit)
}

/** Returns where the target, or part of one, that begins at `at` ends, at most `limit`. */
export function endOfTarget(bytes: Uint8Array, at: number, limit: number): number {
  return endOfRun(IS_TARGET, bytes, at, limit)
}

export function isTokenByte(byte: number): boolean {
  return IS_TOKEN[byte] === 1
}

/** Whether the name at `at`, which must be as long as `name`, is the same. `name` is in lower case. */
export function isSameName(bytes: Uint8Array, at: number, name: Uint8Array): boolean {
  const lower = LOWER
  for (let i = 0; i < name.length; i++) if (lower[bytes[at + i]!] !== name[i]) return false
  return true
}

export function isSameText(bytes: Uint8Array, at: number, name: string): boolean {
  const lower = LOWER
  for (let i = 0; i < name.length; i++) if (lower[bytes[at + i]!] !== name.charCodeAt(i)) return false
  return true
}

/** Checks four bytes per iteration, because reading a head spends most of its time here. */
function endOfRun(isKind: Uint8Array, bytes: Uint8Array, from: number, limit: number): number {
  let at = from
  const lastFour = limit - 4
  while (at <= lastFour && (isKind[bytes[at]!]! & isKind[bytes[at + 1]!]! & isKind[bytes[at + 2]!]! & isKind[bytes[at + 3]!]!) === 1)
    at += 4
  while (at < limit && isKind[bytes[at]!] === 1) at++
  return at
}

function tableOf(entry: (byte: number) => number): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => entry(byte))
}
