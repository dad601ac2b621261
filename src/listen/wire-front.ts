import type { Socket } from 'node:net'
import type { ConnectionFront, ListenerTimeouts } from './http-listener.ts'

/** The same as in `node:http`: a client that relies on our Keep-Alive to the last moment must not find its connection closed. */
const KEEP_ALIVE_MARGIN_MS = 1000
/** Connections are checked at least this often. */
const MAX_SWEEP_MS = 1000

export interface FrontTimeouts {
  /** For a head: from the start of the connection, or from the first byte of a later head. */
  readonly headMs: number
  /** For a connection that has nothing under way. */
  readonly idleMs: number
  /** Times that are noted may be up to one sweep old, so this much is added to the limits of a request. */
  readonly sweepMs: number
}

/** A connection for as long as it asks only what its wire can read. */
export interface FrontConnection {
  /** Ends the connection if what it waits for has taken too long. */
  check(nowMs: number, timeouts: FrontTimeouts): void
  /** To be called when the wire drains: what waits for a first request, or for the rest of one, waits at `node:http`. */
  drain(): void
  closeIfIdle(): void
  destroy(): void
}

/** What all connections of a wire share. */
export class FrontState {
  /** From now on the next request of every connection is handed over. */
  isDraining = false
  /** The time of the last sweep, so that no request reads the clock. */
  roughMs = performance.now()
  /** Gives a connection to `node:http`, for good. */
  readonly handOver: (socket: Socket) => void

  constructor(handOver: (socket: Socket) => void) {
    this.handOver = handOver
  }
}

/**
 * A wire of our own: its connections read plain requests straight from the socket and write their responses to it. They are handed over to
 * `node:http` for good as soon as anything else comes.
 */
export class WireFront<Connection extends FrontConnection = FrontConnection> implements ConnectionFront {
  readonly #state: FrontState
  readonly #newConnection: (socket: Socket, onGone: (socket: Socket) => void) => Connection
  readonly #timeouts: FrontTimeouts
  readonly #connections = new Map<Socket, Connection>()
  readonly #forget = (socket: Socket): void => void this.#connections.delete(socket)
  /** One timer for all connections. */
  readonly #sweep: NodeJS.Timeout

  /**
   * `newConnection` is told what to call when a connection is closed, or `node:http` has it.
   * `silenceMs`: another time limit that connections are checked for; 0: none.
   */
  constructor(
    { keepAliveMs, headersTimeoutMs }: ListenerTimeouts,
    state: FrontState,
    newConnection: (socket: Socket, onGone: (socket: Socket) => void) => Connection,
    silenceMs = 0,
  ) {
    this.#state = state
    this.#newConnection = newConnection
    const shortestMs = Math.min(keepAliveMs, headersTimeoutMs, silenceMs > 0 ? silenceMs : Number.POSITIVE_INFINITY)
    const sweepMs = Math.max(1, Math.min(MAX_SWEEP_MS, shortestMs / 4))
    // Times that are noted may be up to one sweep old.
    this.#timeouts = { headMs: headersTimeoutMs, idleMs: keepAliveMs + KEEP_ALIVE_MARGIN_MS + sweepMs, sweepMs }
    this.#sweep = setInterval(() => this.#check(), sweepMs).unref()
  }

  accept(socket: Socket): void {
    if (this.#state.isDraining) this.#state.handOver(socket)
    else this.#connections.set(socket, this.#newConnection(socket, this.#forget))
  }

  /** Undefined if the connection is gone, or `node:http` has it. */
  connectionOf(socket: Socket): Connection | undefined {
    return this.#connections.get(socket)
  }

  drain(): void {
    this.#state.isDraining = true
    for (const connection of this.#connections.values()) connection.drain()
  }

  closeIdleConnections(): void {
    for (const connection of this.#connections.values()) connection.closeIfIdle()
  }

  closeAllConnections(): void {
    for (const connection of this.#connections.values()) connection.destroy()
  }

  close(): void {
    clearInterval(this.#sweep)
  }

  #check(): void {
    const nowMs = performance.now()
    this.#state.roughMs = nowMs
    for (const connection of this.#connections.values()) connection.check(nowMs, this.#timeouts)
  }
}
