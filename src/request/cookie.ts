import { percentDecoded } from './percent-text.ts'
import { type FieldValue, REPEATED } from './view.ts'

/** Beside semicolons, of some parsers. */
const SPLIT_BY_SOME = /[\s\x85,]+/

/**
 * A cookie's value in a Cookie field whose lines are joined (RFC 6265 4.2), without white space and quotes around it. Many backends decode escapes in
 * names and values, so they are decoded: another spelling must not be another caller. REPEATED where the name comes more than once, or where
 * backends differ: some split at white space and commas too, and some decode `\162` between quotes.
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
      const spelled = equals < 0 ? '' : trimmed(pair.slice(equals + 1))
      if (spelled.startsWith('"') && spelled.includes('\\')) return REPEATED
      value = percentDecoded(unquoted(spelled))
    }
    if (hasNameWithin(pair, name)) return REPEATED
    at = end + 1
  }
  return value
}

function isNamed(spelled: string, name: string): boolean {
  return spelled === name || (spelled.includes('%') && percentDecoded(spelled) === name)
}

/** Whether a backend that splits at more than semicolons finds the name behind the start of this part. */
function hasNameWithin(pair: string, name: string): boolean {
  if (!pair.includes(name) && !pair.includes('%')) return false
  const text = trimmed(pair)
  if (!SPLIT_BY_SOME.test(text)) return false
  const words = text.split(SPLIT_BY_SOME)
  return words.some((word, i) => {
    if (i === 0) return false
    const equals = word.indexOf('=')
    // Some allow white space before the sign.
    if (equals < 0) return words[i + 1]?.startsWith('=') === true && isNamed(word, name)
    return isNamed(word.slice(0, equals), name)
  })
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
