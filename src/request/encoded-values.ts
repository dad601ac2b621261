import { type FieldValue, REPEATED } from './view.ts'

/** Separators at which some parsers split a Cookie field, besides semicolons. */
const SPLIT_BY_SOME = /[\s\x85,]+/

/**
 * Returns a cookie's value from a Cookie field whose lines are joined (RFC 6265 4.2), without white space and quotes around it. Escapes in
 * names and values are decoded, as in many backends: another spelling must not be another caller. Returns REPEATED if the name occurs more
 * than once, or if backends differ: some split at white space and commas too, and some decode `\162` between quotes.
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

/** Whether a backend that splits at more than semicolons finds the name further inside this part. */
function hasNameWithin(pair: string, name: string): boolean {
  if (!pair.includes(name) && !pair.includes('%')) return false
  const text = trimmed(pair)
  if (!SPLIT_BY_SOME.test(text)) return false
  const words = text.split(SPLIT_BY_SOME)
  return words.some((word, i) => {
    if (i === 0) return false
    const equals = word.indexOf('=')
    // Some backends allow white space before the equals sign.
    if (equals < 0) return words[i + 1]?.startsWith('=') === true && isNamed(word, name)
    return isNamed(word.slice(0, equals), name)
  })
}

function unquoted(text: string): string {
  return text.length > 1 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text
}

/** Trims everything that any common backend takes for white space. */
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

/**
 * Returns a parameter of a request target's query, as forms encode it: pairs are separated by `&`, escapes are decoded, and `+` is a space.
 * `nameBytes` and the target are latin1 strings. Takes time linear in the length of the target.
 */
export function queryValue(target: string, nameBytes: string): FieldValue {
  const start = target.indexOf('?') + 1
  if (start === 0) return undefined
  const value = findParameter(target, start, target.length, nameBytes)
  const fragment = target.indexOf('#')
  if (fragment < 0) return value
  // RFC 9112 3.2 allows no fragment. Some readers drop it, others take the `#` as text: if that makes a difference, the value is ambiguous.
  const beforeFragment = findParameter(target, start, fragment, nameBytes)
  return value === beforeFragment ? value : REPEATED
}

/** Returns REPEATED if the name occurs more than once, however it is spelled. */
function findParameter(target: string, from: number, to: number, nameBytes: string): FieldValue {
  let value: string | undefined
  for (let at = from; at < to; ) {
    const separator = target.indexOf('&', at)
    const end = separator < 0 || separator > to ? to : separator
    const pair = target.slice(at, end)
    const equals = pair.indexOf('=')
    if (isNamedInBytes(equals < 0 ? pair : pair.slice(0, equals), nameBytes)) {
      if (value !== undefined) return REPEATED
      value = equals < 0 ? '' : percentDecoded(withSpaces(pair.slice(equals + 1)))
    }
    at = end + 1
  }
  return value
}

function isNamedInBytes(spelled: string, nameBytes: string): boolean {
  // An escape is longer than the byte that it stands for, so a shorter text cannot match.
  return spelled.length >= nameBytes.length && unescapedBytes(withSpaces(spelled)) === nameBytes
}

function withSpaces(text: string): string {
  return text.includes('+') ? text.replaceAll('+', ' ') : text
}

/**
 * Decodes percent-encoding (RFC 3986 2.1) as backends do. The input is a latin1 string. Text that is not an escape stays as it is, and
 * invalid UTF-8 becomes U+FFFD, so every text has a value, and all spellings of a value give the same one.
 */
function percentDecoded(text: string): string {
  return utf8Text(unescapedBytes(text))
}

/** Returns the bytes that a text stands for, as a latin1 string. */
function unescapedBytes(text: string): string {
  if (!text.includes('%')) return text
  return text.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

/** A text with characters beyond latin1, as a caller of the library may pass it, is decoded already. */
function utf8Text(bytes: string): string {
  return /[\x80-\xff]/.test(bytes) && !/[^\0-\xff]/.test(bytes) ? Buffer.from(bytes, 'latin1').toString('utf8') : bytes
}

/** Returns the n-th segment of a normalised path, from 1; undefined if it has fewer. A path that ends in a slash has an empty last segment. */
export function pathSegment(path: string, n: number): string | undefined {
  let from = 1
  for (let i = 1; i < n; i++) {
    const slash = path.indexOf('/', from)
    if (slash < 0) return undefined
    from = slash + 1
  }
  const end = path.indexOf('/', from)
  return end < 0 ? path.slice(from) : path.slice(from, end)
}
