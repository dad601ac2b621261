import { TOKEN } from '../text/formats.ts'

/** RFC 9110 5.6.2: 1 for the bytes of a token. */
const IS_TOKEN = tableOf((byte) => (TOKEN.test(String.fromCharCode(byte)) ? 1 : 0))

/** RFC 9110 5.5: 1 for the bytes of a field's value; tabs are allowed there, and are left to `node:http`. */
const IS_VALUE = tableOf((byte) => ((byte >= 0x20 && byte <= 0x7e) || byte >= 0x80 ? 1 : 0))

/** RFC 3986 3.3, 3.4: 1 for the bytes of a target; some servers also take others, `#` among them, and those are left to `node:http`. */
const IS_TARGET = tableOf((byte) => (byte >= 0x21 && byte <= 0x7e && byte !== 0x23 ? 1 : 0))

/** The value of each byte as a hexadecimal digit, or -1. */
export const HEX_VALUES = Int8Array.from({ length: 256 }, (_, byte) => '0123456789abcdef'.indexOf(String.fromCharCode(byte).toLowerCase()))

/** The lower case of an ASCII letter, any other byte as it is. */
const LOWER = tableOf((byte) => (byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte))

/** Where the token that begins at `at` ends, `limit` at the latest. */
export function endOfToken(bytes: Uint8Array, at: number, limit: number): number {
  return endOfRun(IS_TOKEN, bytes, at, limit)
}

/** Where the value that begins at `at` ends, `limit` at the latest. */
export function endOfValue(bytes: Uint8Array, at: number, limit: number): number {
  return endOfRun(IS_VALUE, bytes, at, limit)
}

/** Where the target, or the part of one, that begins at `at` ends, `limit` at the latest. */
export function endOfTarget(bytes: Uint8Array, at: number, limit: number): number {
  return endOfRun(IS_TARGET, bytes, at, limit)
}

export function isTokenByte(byte: number): boolean {
  return IS_TOKEN[byte] === 1
}

/** Whether a name that is as long as this one, which is in lower case, is the same. */
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

/** Four bytes a turn as long as there are four: this is where most of the time for a head goes. */
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
