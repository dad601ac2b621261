import { foldedName } from './folded-name.ts'

const NAMES = new Set(['forwarded', 'x-forwarded', 'x-real-ip', 'x-asn-type', 'x-tor-exit'])

/** Fields by which a peer speaks for others, in any spelling: only a trusted one is heard. `name` is in lower case. */
export function isForwardingField(name: string): boolean {
  if (name.charCodeAt(0) !== X && name.charCodeAt(0) !== F) return false
  const folded = foldedName(name)
  return folded.startsWith('x-forwarded-') || NAMES.has(folded)
}

const X = 0x78
const F = 0x66
