import type { CallerValues, CountersJson } from '../src/admin/api/types.ts'
import { printable } from './printable.ts'

/** A caller of a rule. */
export type RuleCaller = Pick<CountersJson, 'policy' | 'rule' | 'values'>

/** Keys whose values the API shows as the client sent them, with one character for each byte. */
const BYTE_KEYS = /^(?:header:|cookie:|bearer$|llm:key$)/i
const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** Converts a value that an operator typed to the form that the API expects; clients send text in UTF-8. */
export function typedValue(key: string, text: string): string {
  if (!BYTE_KEYS.test(key)) return text
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join('')
}

/** Converts a value from the API to readable text. */
export function shownValue(value: string): string {
  return printable(textOfBytes(value))
}

/** Returns a name such as `alice, 10.0.0.1`. A rule without keys has one counter for everybody. */
export function callerName(values: CallerValues): string {
  return Object.values(values).map(shownValue).join(', ') || 'everybody'
}

const CREDENTIALS = new Set(['bearer', 'llm:key', 'header:authorization', 'header:proxy-authorization', 'header:cookie'])

/** Returns whether nobody may read the key's values, which are then shown as digests of 16 hexadecimal digits. */
export function isCredential(key: string): boolean {
  return CREDENTIALS.has(key) || key.startsWith('cookie:')
}

export function looksLikeDigest(value: string): boolean {
  return /^[0-9a-f]{16}$/.test(value)
}

/** Returns whether `top` shows only the beginning of a value, which is not enough to find its counter. */
export function isCut(values: CallerValues): boolean {
  return Object.values(values).some((value) => value.endsWith('…'))
}

function textOfBytes(value: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that stand for bytes
  if (/[^\u0000-\u00ff]/.test(value)) return value
  try {
    return UTF_8.decode(Uint8Array.from(value, (character) => character.charCodeAt(0)))
  } catch {
    return value
  }
}
