import { type FieldValue, REPEATED, withNextLine } from '../request/view.ts'

/**
 * Returns a field's value as a limit key. It reads the raw list, because `req.headers` keeps only the first of some repeated fields, and a
 * caller could hide a limit key in the others. `name` is in lower case.
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

/** Returns all lines of a field that is a list, joined. `name` is in lower case. */
export function headerValue(rawHeaders: readonly string[], name: string, separator = ', '): string | undefined {
  let value: string | undefined
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const field = rawHeaders[i]!
    if (field.length !== name.length || field.toLowerCase() !== name) continue
    value = value === undefined ? rawHeaders[i + 1]! : `${value}${separator}${rawHeaders[i + 1]}`
  }
  return value
}

/** Returns all cookies. Gateways that speak HTTP/2 to the client may split them into several fields (RFC 9113 8.2.3). */
export function cookieHeader(rawHeaders: readonly string[]): string | undefined {
  return headerValue(rawHeaders, 'cookie', '; ')
}

/** Names and values in turn, as they are sent. */
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

/** Returns the members of a list without surrounding white space. Empty ones are included. */
export function listMembers(list: string): string[] {
  return list.split(',').map((member) => member.trim())
}

function isMember(list: string, from: number, end: number, member: string): boolean {
  while (from < end && isSpace(list.charCodeAt(from))) from++
  while (end > from && isSpace(list.charCodeAt(end - 1))) end--
  return end - from === member.length && list.slice(from, end).toLowerCase() === member
}

/** RFC 9110 5.6.3: white space that may surround a member. */
function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09
}

/** Returns the fields that Connection names. Like the hop-by-hop fields, they end with the connection (RFC 9110 7.6.1). */
export function connectionNames(connection: string): Set<string> | undefined {
  if (connection === '' || connection === 'keep-alive' || connection === 'close') return undefined
  return new Set(listMembers(connection.toLowerCase()))
}
