import { type FieldValue, REPEATED, withNextLine } from '../request/view.ts'

/**
 * A field as a limit may be keyed by it. Reads the raw list, because `req.headers` keeps only the first of some repeated
 * fields and loses what a limit key may hide in. `name` is in lower case.
 */
export function fieldValue(rawHeaders: readonly string[], name: string): FieldValue {
  let value: string | undefined
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const field = rawHeaders[i]!
    if (field.length !== name.length || field.toLowerCase() !== name) continue
    if (value === undefined) {
      value = rawHeaders[i + 1]!
      continue
    }
    const longer = withNextLine(name, value, rawHeaders[i + 1]!)
    if (longer === REPEATED) return REPEATED
    value = longer
  }
  return value
}

/** All lines of a field that is a list, in one text. `name` is in lower case. */
export function headerValue(rawHeaders: readonly string[], name: string, separator = ', '): string | undefined {
  let value: string | undefined
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const field = rawHeaders[i]!
    if (field.length !== name.length || field.toLowerCase() !== name) continue
    value = value === undefined ? rawHeaders[i + 1]! : `${value}${separator}${rawHeaders[i + 1]}`
  }
  return value
}

/** Gateways that speak HTTP/2 to the client may split the cookies (RFC 9113 8.2.3). */
export function cookieHeader(rawHeaders: readonly string[]): string | undefined {
  return headerValue(rawHeaders, 'cookie', '; ')
}
