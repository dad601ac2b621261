import { parseAddress } from '../address.ts'
import type { TrustedProxies } from '../request/client-address.ts'

/** Who is at the other end of a client's connection. */
export interface Peer {
  readonly address: string
  /** What it says in X-Forwarded-* and the like is believed. */
  readonly isTrusted: boolean
}

export function peerOf(remoteAddress: string | undefined, trustedProxies: TrustedProxies): Peer {
  // A server that listens on IPv6 sees IPv4 peers in their mapped form.
  const address = (remoteAddress ?? '').replace(/^::ffff:(?=\d+\.)/i, '')
  const parsed = parseAddress(address)
  return { address, isTrusted: parsed !== undefined && trustedProxies.includes(parsed) }
}
