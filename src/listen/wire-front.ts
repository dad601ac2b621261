import type { Socket } from 'node:net'
import type { ConnectionFront, ListenerTimeouts } from './http-listener.ts'

/** `node:http` adds the same margin, so that a client that uses our Keep-Alive timeout to the last moment does not find its connection closed. */
const KEEP_ALIVE_MARGIN_MS = 1000
/** Connections are checked at least this often. */
const MAX_SWEEP_MS = 1000

export interface FrontTimeouts {
  /** Time limit for a head, from the start of the connection or from the first byte of a later head. */
  readonly headMs: number
  /** Time limit for a connection with nothing under way. */
  readonly idleMs: number
  /** Interval between checks. Recorded times may be this old, so it is added to the time limits of a request. */
  readonly sweepMs: number
}

/** A connection for as long as it sends only what its wire can read. */
export interface FrontConnection {
  /** Whether a request is in flight, or part of a response has not been sent yet. */
  readonly isServing: boolean
  /** Ends the connection if what it waits for has taken too long. */
  check(nowMs: number, timeouts: FrontTimeouts): void
  /** Called when the wire drains. A connection that waits for its first request, or for the rest of a head, is handed over to `node:http`. */
  drain(): void
  closeIfIdle(): void
  destroy(): void
}

/** State that all connections of a wire share. */
export class FrontState {
  /** While draining, every connection is handed over at its next request. */
  isDraining = false
  /** Time of the last check, so that no request has to read the clock. */
  roughMs = performance.now()
  /** Hands a connection over to `node:http`, for good. */
  readonly handOver: (socket: Socket) => void

  constructor(handOver: (socket: Socket) => void) {
    this.handOver = handOver
  }
}

/**
 * A wire of our own: its connections read plain requests straight from the socket and write their responses to it. A connection is handed
 * over to `node:http`, for good, as soon as anything else comes.
 */
export class WireFront<Connection extends FrontConnection = FrontConnection> implements ConnectionFront {
  readonly #state: FrontState
  readonly #newConnection: (socket: Socket, onGone: (socket: Socket) => void) => Connection
  readonly #timeouts: FrontTimeouts
  readonly #connections = new Map<Socket, Connection>()
  readonly #forget = (socket: Socket): void => void this.#connections.delete(socket)
  /** One timer checks all connections; it runs only while there are some. */
  #sweep: NodeJS.Timeout | undefined

  /**
   * `newConnection` gets a function to call when the connection is closed or handed over to `node:http`.
   * `silenceMs` is another time limit that connections are checked for, or 0 for none.
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
    // Idle times are counted from `roughMs`, which may be up to one check old.
    this.#timeouts = { headMs: headersTimeoutMs, idleMs: keepAliveMs + KEEP_ALIVE_MARGIN_MS + sweepMs, sweepMs }
  }

  accept(socket: Socket): void {
    if (this.#state.isDraining) return this.#state.handOver(socket)
    this.#startSweep()
    this.#connections.set(socket, this.#newConnection(socket, this.#forget))
  }

  /** Returns undefined if the connection is closed or has been handed over to `node:http`. */
  connectionOf(socket: Socket): Connection | undefined {
    return this.#connections.get(socket)
  }

  drain(): void {
    this.#state.isDraining = true
    for (const connection of this.#connections.values()) connection.drain()
  }

  isServing(socket: Socket): boolean {
    return this.#connections.get(socket)?.isServing === true
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

  #startSweep(): void {
    if (this.#sweep !== undefined) return
    this.#state.roughMs = performance.now()
    this.#sweep = setInterval(() => this.#check(), this.#timeouts.sweepMs).unref()
  }

  #check(): void {
    if (this.#connections.size === 0) {
      clearInterval(this.#sweep)
      this.#sweep = undefined
      return
    }
    const nowMs = performance.now()
    this.#state.roughMs = nowMs
    for (const connection of this.#connections.values()) connection.check(nowMs, this.#timeouts)
  }
}
