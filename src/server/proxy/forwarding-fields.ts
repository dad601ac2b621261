const NAMES = new Set(['forwarded', 'x-forwarded', 'x-real-ip', 'x-asn-type', 'x-tor-exit'])

/**
 * Fields by which a peer speaks for others: only a trusted one is heard. `name` is in lower case. CGI and what descends from it
 * (RFC 3875 4.1.18; WSGI, Rack, PHP) turn whatever is no letter or digit into `_`, so `x_forwarded_for` and `x.forwarded-for` are the
 * same field to them.
 */
export function isForwardingField(name: string): boolean {
  if (name.charCodeAt(0) !== X && name.charCodeAt(0) !== F) return false
  const folded = name.replace(/[^a-z0-9-]/g, '-')
  return folded.startsWith('x-forwarded-') || NAMES.has(folded)
}

const X = 0x78
const F = 0x66
