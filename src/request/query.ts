import { percentDecoded, unescapedBytes } from './percent-text.ts'
import { type FieldValue, REPEATED } from './view.ts'

/**
 * A parameter of a request target's query, as forms encode it: pairs are separated by `&`, escapes are decoded, and `+` is a space.
 * `nameBytes` and the target have one character per byte. Takes time linear in the length of the target.
 */
export function queryValue(target: string, nameBytes: string): FieldValue {
  const start = target.indexOf('?') + 1
  if (start === 0) return undefined
  const value = findParameter(target, start, target.length, nameBytes)
  const fragment = target.indexOf('#')
  if (fragment < 0) return value
  // RFC 9112 3.2 allows no fragment. Some readers drop it, others take the `#` as text: if that makes a difference, nobody knows the value.
  const beforeFragment = findParameter(target, start, fragment, nameBytes)
  return value === beforeFragment ? value : REPEATED
}

/** REPEATED where the name comes more than once, however it is spelled. */
function findParameter(target: string, from: number, to: number, nameBytes: string): FieldValue {
  let value: string | undefined
  for (let at = from; at < to; ) {
    const separator = target.indexOf('&', at)
    const end = separator < 0 || separator > to ? to : separator
    const pair = target.slice(at, end)
    const equals = pair.indexOf('=')
    if (isNamed(equals < 0 ? pair : pair.slice(0, equals), nameBytes)) {
      if (value !== undefined) return REPEATED
      value = equals < 0 ? '' : percentDecoded(withSpaces(pair.slice(equals + 1)))
    }
    at = end + 1
  }
  return value
}

function isNamed(spelled: string, nameBytes: string): boolean {
  // An escape is longer than what it stands for.
  return spelled.length >= nameBytes.length && unescapedBytes(withSpaces(spelled)) === nameBytes
}

function withSpaces(text: string): string {
  return text.includes('+') ? text.replaceAll('+', ' ') : text
}
