import { listMembers } from './list-field.ts'

/** RFC 9110 7.6.1: the fields that Connection names end with the connection, like those that always do. */
export function connectionNames(connection: string): Set<string> | undefined {
  if (connection === '' || connection === 'keep-alive' || connection === 'close') return undefined
  return new Set(listMembers(connection.toLowerCase()))
}
