import { percentDecoded } from './percent-text.ts'
import { type FieldValue, REPEATED } from './view.ts'

/**
 * A cookie's value in a Cookie field whose lines are joined (RFC 6265 4.2), without white space and quotes around it. Many backends decode escapes in
 * names and values, so they are decoded: another spelling must not be another caller. REPEATED where the name comes more than once.
 */
export function cookieValue(field: string | undefined, name: string): FieldValue {
  if (field === undefined) return undefined
  let value: string | undefined
  for (let at = 0; at < field.length; ) {
    const separator = field.indexOf(';', at)
    const end = separator < 0 ? field.length : separator
    const pair = field.slice(at, end)
    const equals = pair.indexOf('=')
    if (isNamed(trimmed(equals < 0 ? pair : pair.slice(0, equals)), name)) {
      if (value !== undefined) return REPEATED
      value = equals < 0 ? '' : percentDecoded(unquoted(trimmed(pair.slice(equals + 1))))
    }
    at = end + 1
  }
  return value
}

function isNamed(spelled: string, name: string): boolean {
  return spelled === name || (spelled.includes('%') && percentDecoded(spelled) === name)
}

function unquoted(text: string): string {
  return text.length > 1 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text
}

/** Without what is white space to any common backend. */
function trimmed(text: string): string {
  let from = 0
  let to = text.length
  while (from < to && isSpace(text.charCodeAt(from))) from++
  while (to > from && isSpace(text.charCodeAt(to - 1))) to--
  return text.slice(from, to)
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09 || code === 0x85 || code === 0xa0
}
