/** RFC 9110 7.6.1: these concern one connection and end with it. */
const HOP_BY_HOP = new Set([
  'connection',
  'proxy-connection',
  'keep-alive',
  'te',
  'transfer-encoding',
  'upgrade',
  'proxy-authenticate',
  'proxy-authorization',
])

/** Tells the fields of a message that end with its connection; names are in lower case. */
export function hopByHop(fields: readonly string[], names: readonly string[]): (name: string) => boolean {
  const named = connectionNames(fields, names)
  return named === undefined ? isHopByHop : (name) => HOP_BY_HOP.has(name) || named.has(name)
}

export function isHopByHop(name: string): boolean {
  return HOP_BY_HOP.has(name)
}

/** The names in a list of names and values in turn. */
export function lowerNames(fields: readonly string[]): string[] {
  const names: string[] = []
  for (let i = 0; i < fields.length; i += 2) names.push(fields[i]!.toLowerCase())
  return names
}

/** The fields that Connection names. */
function connectionNames(fields: readonly string[], names: readonly string[]): Set<string> | undefined {
  let named: Set<string> | undefined
  for (let i = 0; i < names.length; i++) {
    if (names[i] !== 'connection') continue
    const value = fields[2 * i + 1]!
    if (value === 'keep-alive' || value === 'close') continue
    named ??= new Set()
    for (const name of value.split(',')) named.add(name.trim().toLowerCase())
  }
  return named
}
