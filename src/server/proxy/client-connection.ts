import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { parseAddress } from '../../request/address.ts'
import type { TrustedProxies } from '../../request/client-address.ts'

/** Who is at the other end of a client's connection. */
export interface Peer {
  readonly address: string
  /** What it says in X-Forwarded-* and the like is believed. */
  readonly isTrusted: boolean
}

/** It is cheaper to sort out the finished ones now and then than to listen to each. */
const MANY_ANSWERS = 8

/** Whoever must know when the client leaves. Node does not tell an answer that still waits its turn in a pipeline. */
export interface ClientWatcher {
  /** The client has ended its side; it may still be there. */
  onClientEnd(): void
  /** The client is gone. */
  onClientGone(): void
}

/** A client's connection and what is under way on it. */
export class ClientConnection {
  readonly peer: Peer
  #answers: ServerResponse[] = []
  readonly #watchers = new Set<ClientWatcher>()
  hasEnded = false
  /** Nobody is there any more to read an answer. */
  isGone = false
  /** A request on it was ambiguous: whatever comes behind that one may be part of it, and is not answered. */
  isRefused = false

  constructor(socket: Socket, trustedProxies: TrustedProxies) {
    // A server that listens on IPv6 sees IPv4 peers in their mapped form.
    const text = (socket.remoteAddress ?? '').replace(/^::ffff:(?=\d+\.)/i, '')
    const address = parseAddress(text)
    this.peer = { address: text, isTrusted: address !== undefined && trustedProxies.includes(address) }
    socket.once('end', () => {
      this.hasEnded = true
      for (const watcher of this.#watchers) watcher.onClientEnd()
    })
    socket.once('close', () => this.giveUp())
  }

  begin(res: ServerResponse): void {
    if (this.#answers.length >= MANY_ANSWERS) this.#answers = this.openAnswers
    this.#answers.push(res)
  }

  /** Answers that are not finished, in the order of their requests. */
  get openAnswers(): ServerResponse[] {
    return this.#answers.filter((res) => !res.closed)
  }

  watch(watcher: ClientWatcher): void {
    this.#watchers.add(watcher)
  }

  unwatch(watcher: ClientWatcher): void {
    this.#watchers.delete(watcher)
  }

  /** Nobody waits for answers here any more. */
  giveUp(): void {
    this.isGone = true
    for (const watcher of this.#watchers) watcher.onClientGone()
  }
}

/** Knows each connection once. */
export class ClientConnections {
  readonly #trustedProxies: TrustedProxies
  readonly #known = new WeakMap<Socket, ClientConnection>()

  constructor(trustedProxies: TrustedProxies) {
    this.#trustedProxies = trustedProxies
  }

  of(socket: Socket): ClientConnection {
    let connection = this.#known.get(socket)
    if (connection === undefined) {
      connection = new ClientConnection(socket, this.#trustedProxies)
      this.#known.set(socket, connection)
    }
    return connection
  }
}
