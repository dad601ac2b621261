import type { Socket } from 'node:net'
import type { ConnectionFront, ListenerTimeouts } from '../../listen/http-listener.ts'
import type { WireTimeouts } from './client-deadlines.ts'
import { WireClient } from './wire-client.ts'
import { WireContext, type WireHandlers } from './wire-context.ts'

/** The same as in `node:http`: a client that relies on our Keep-Alive to the last moment must not find its connection closed. */
const KEEP_ALIVE_MARGIN_MS = 1000
/** Connections are checked at least this often. */
const MAX_SWEEP_MS = 1000

/**
 * The proxy's own wire: reads plain requests straight from the socket and writes their responses to it, and hands a connection over to `node:http`
 * for good as soon as anything else comes.
 */
export class ProxyWire implements ConnectionFront {
  readonly #context: WireContext
  readonly #timeouts: WireTimeouts
  readonly #clients = new Map<Socket, WireClient>()
  readonly #forget = (socket: Socket): void => void this.#clients.delete(socket)
  /** One timer for all connections. */
  readonly #sweep: NodeJS.Timeout

  /** `silenceMs`: how long a client may be silent in the middle of a request, or take nothing of its response; 0: for ever. */
  constructor({ keepAliveMs, headersTimeoutMs }: ListenerTimeouts, silenceMs: number, handlers: WireHandlers) {
    this.#context = new WireContext(keepAliveMs, silenceMs, handlers)
    const shortestMs = Math.min(keepAliveMs, headersTimeoutMs, silenceMs > 0 ? silenceMs : Number.POSITIVE_INFINITY)
    const sweepMs = Math.max(1, Math.min(MAX_SWEEP_MS, shortestMs / 4))
    // Times that are noted may be up to one sweep old.
    this.#timeouts = { headMs: headersTimeoutMs, idleMs: keepAliveMs + KEEP_ALIVE_MARGIN_MS + sweepMs, sweepMs }
    this.#sweep = setInterval(() => this.#check(), sweepMs).unref()
  }

  accept(socket: Socket): void {
    if (this.#context.isDraining) this.#context.handlers.handOver(socket)
    else this.#clients.set(socket, new WireClient(this.#context, socket, this.#forget))
  }

  /** Whether this wire has the connection, and it is serving. */
  isServing(socket: Socket): boolean {
    return this.#clients.get(socket)?.isServing ?? false
  }

  drain(): void {
    this.#context.isDraining = true
    for (const client of this.#clients.values()) client.drain()
  }

  closeIdleConnections(): void {
    for (const client of this.#clients.values()) client.closeIfIdle()
  }

  closeAllConnections(): void {
    for (const client of this.#clients.values()) client.destroy()
  }

  close(): void {
    clearInterval(this.#sweep)
  }

  #check(): void {
    const nowMs = performance.now()
    this.#context.roughMs = nowMs
    for (const client of this.#clients.values()) client.check(nowMs, this.#timeouts)
  }
}
