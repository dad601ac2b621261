import { fieldName } from '../field-name.ts'

/** RFC 9110 7.6.1: the fields that Connection names end with the connection, like those that always do. */
export function connectionNames(fields: readonly string[]): Set<string> | undefined {
  let named: Set<string> | undefined
  for (let i = 0; i < fields.length; i += 2) {
    if (fieldName(fields[i]!).lower !== 'connection') continue
    const value = fields[i + 1]!
    if (value === 'keep-alive' || value === 'close') continue
    named ??= new Set()
    for (const name of value.split(',')) named.add(name.trim().toLowerCase())
  }
  return named
}
