import type { CallerValues, CountersJson } from '../src/admin/api/types.ts'
import { printable } from './printable.ts'

/** A caller of a rule. */
export type RuleCaller = Pick<CountersJson, 'policy' | 'rule' | 'values'>

/** Keys whose values the API has as the client sent them: one character for each byte. */
const BYTE_KEYS = /^(?:header:|cookie:|bearer$)/i
const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** A value that an operator typed, as the API expects it: clients send text in UTF-8. */
export function typedValue(key: string, text: string): string {
  if (!BYTE_KEYS.test(key)) return text
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join('')
}

/** A value of the API, to be read by people. */
export function shownValue(value: string): string {
  return printable(textOfBytes(value))
}

/** `alice, 10.0.0.1`; a rule without keys has one counter for everybody. */
export function callerName(values: CallerValues): string {
  return Object.values(values).map(shownValue).join(', ') || 'everybody'
}

const CREDENTIALS = new Set(['bearer', 'header:authorization', 'header:proxy-authorization', 'header:cookie'])

/** Whether nobody may read its values: these are shown as digests of 16 hexadecimal digits. */
export function isCredential(key: string): boolean {
  return CREDENTIALS.has(key) || key.startsWith('cookie:')
}

export function looksLikeDigest(value: string): boolean {
  return /^[0-9a-f]{16}$/.test(value)
}

/** Whether `top` shows only the beginning of a value, by which its counter cannot be found. */
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
