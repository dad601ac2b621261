import type { CallerValues } from '../../src/admin/api/types.ts'
import { typedValue } from '../caller-values.ts'

/** A caller that an operator asked about: by some of its values, or by one value whose key is not known. */
export type AskedCaller = { readonly values: CallerValues } | { readonly value: string }

/** A key as policies write it. Anything else before an equals sign belongs to a value: keys in base64 end with one. */
const KEY = /^(bearer|llm:(?:model|key)|(?:jwt|header|query|cookie|path|context|caller|ip|descriptor):[^=]+)=/i
/** Where the next pair begins. Values may contain spaces. */
const NEXT_PAIR = /\s(?=(?:bearer|llm:(?:model|key)|(?:jwt|header|query|cookie|path|context|caller|ip|descriptor):[^=\s]+)=)/i

/** Reads `KEY=VALUE`, several of them with spaces in between, or a value alone. Throws an Error that says what is wrong, without any value. */
export function readAsked(text: string): AskedCaller {
  const typed = text.trim()
  if (typed === '') throw new Error('Type a value of the caller, or KEY=VALUE.')
  if (!KEY.test(typed)) return { value: typed }
  const values: Record<string, string> = {}
  for (const pair of typed.split(NEXT_PAIR)) {
    const key = keyIn(pair)
    const value = pair.slice(pair.indexOf('=') + 1).trim()
    if (key in values) throw new Error(`${key} occurs twice: type one caller.`)
    if (value === '' && !key.startsWith('descriptor:')) throw new Error(`The value of ${key} is missing.`)
    values[key] = typedValue(key, value)
  }
  return { values }
}

/** Returns the key as the API spells it: kinds of keys and names of headers are in lower case. */
function keyIn(pair: string): string {
  const key = KEY.exec(pair)![1]!
  if (/^header:/i.test(key)) return key.toLowerCase()
  const colon = key.indexOf(':')
  return colon < 0 ? key.toLowerCase() : key.slice(0, colon).toLowerCase() + key.slice(colon)
}

/** Returns the credential that was typed for a key. Responses have its digest instead, by which no counter is found. */
export function typedCredential(asked: AskedCaller, key: string): string | undefined {
  return 'values' in asked ? asked.values[key] : typedValue(key, asked.value)
}
