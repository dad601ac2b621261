import type { Socket } from 'node:net'
import { parseAddress } from '../address.ts'
import type { TrustedProxies } from '../request/client-address.ts'

/** Who is at the other end of a client's connection. */
export interface Peer {
  readonly address: string
  /** What it says in X-Forwarded-* and the like is believed. */
  readonly isTrusted: boolean
}

export type PeerOf = (socket: Socket) => Peer

/** On a port: trusted where its address is that of a trusted proxy. */
export function remotePeerOf(trustedProxies: TrustedProxies): PeerOf {
  return ({ remoteAddress }) => peerAt(remoteAddress, trustedProxies)
}

/** On a unix socket: a process of this machine, which has no address. It counts as one that connects over loopback. */
export function localPeerOf(trustedProxies: TrustedProxies): PeerOf {
  const peer = peerAt('127.0.0.1', trustedProxies)
  return () => peer
}

export function peerAt(remoteAddress: string | undefined, trustedProxies: TrustedProxies): Peer {
  // A server that listens on IPv6 sees IPv4 peers in their mapped form.
  const address = (remoteAddress ?? '').replace(/^::ffff:(?=\d+\.)/i, '')
  const parsed = parseAddress(address)
  return { address, isTrusted: parsed !== undefined && trustedProxies.includes(parsed) }
}
