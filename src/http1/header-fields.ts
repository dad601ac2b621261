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

/** Names and values in turn, as they go on the wire. */
export type HeaderList = string[]

/** Whether a field that is a list (RFC 9110 5.6.1) has this member, which is given in lower case. */
export function hasMember(list: string, member: string): boolean {
  for (let from = 0; from <= list.length; ) {
    const comma = list.indexOf(',', from)
    const end = comma < 0 ? list.length : comma
    if (isMember(list, from, end, member)) return true
    from = end + 1
  }
  return false
}

/** The members of a list, without the white space around them. Empty ones stay. */
export function listMembers(list: string): string[] {
  return list.split(',').map((member) => member.trim())
}

function isMember(list: string, from: number, end: number, member: string): boolean {
  while (from < end && isSpace(list.charCodeAt(from))) from++
  while (end > from && isSpace(list.charCodeAt(end - 1))) end--
  return end - from === member.length && list.slice(from, end).toLowerCase() === member
}

/** RFC 9110 5.6.3: what may stand around a member. */
function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09
}

/** RFC 9110 7.6.1: the fields that Connection names end with the connection, like those that always do. */
export function connectionNames(connection: string): Set<string> | undefined {
  if (connection === '' || connection === 'keep-alive' || connection === 'close') return undefined
  return new Set(listMembers(connection.toLowerCase()))
}
