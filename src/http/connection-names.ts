/** RFC 9110 7.6.1: the fields that Connection names end with the connection, like those that always do. */
export function connectionNames(connection: string): Set<string> | undefined {
  if (connection === '' || connection === 'keep-alive' || connection === 'close') return undefined
  return new Set(connection.split(',').map((name) => name.trim().toLowerCase()))
}
