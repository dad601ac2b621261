import type { Socket } from 'node:net'
import { parseAddress } from '../../request/address.ts'
import type { TrustedProxies } from '../../request/client-address.ts'

/** Who is at the other end of a client's connection. */
export interface Peer {
  readonly address: string
  /** What it says in X-Forwarded-* and the like is believed. */
  readonly isTrusted: boolean
}

/** Looks each connection's peer up once. */
export class Peers {
  readonly #trustedProxies: TrustedProxies
  readonly #known = new WeakMap<Socket, Peer>()

  constructor(trustedProxies: TrustedProxies) {
    this.#trustedProxies = trustedProxies
  }

  of(socket: Socket): Peer {
    let peer = this.#known.get(socket)
    if (peer === undefined) {
      // A server that listens on IPv6 sees IPv4 peers in their mapped form.
      const text = (socket.remoteAddress ?? '').replace(/^::ffff:(?=\d+\.)/i, '')
      const address = parseAddress(text)
      peer = { address: text, isTrusted: address !== undefined && this.#trustedProxies.includes(address) }
      this.#known.set(socket, peer)
    }
    return peer
  }
}
