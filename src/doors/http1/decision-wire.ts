import type { Socket } from 'node:net'
import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import type { ConnectionFront, ListenerTimeouts } from '../../listen/http-listener.ts'
import { WireConnection, type WireTimeouts } from './wire-connection.ts'
import { WireContext } from './wire-context.ts'

/** As `node:http` has it: a client that trusts our Keep-Alive to the last moment shall not find the door closed. */
const KEEP_ALIVE_MARGIN_MS = 1000
/** How often connections are looked at, at the least. */
const MAX_SWEEP_MS = 1000

/**
 * The fast wire of the decision port: answers plain questions straight from the socket, and hands a connection over to
 * `node:http` for good as soon as it says anything else.
 */
export class DecisionWire implements ConnectionFront {
  readonly #context: WireContext
  readonly #timeouts: WireTimeouts
  readonly #connections = new Set<WireConnection>()
  readonly #forget = (connection: WireConnection): void => void this.#connections.delete(connection)
  /** One timer for all connections. */
  readonly #sweep: NodeJS.Timeout

  constructor(pipeline: DecisionPipeline, { keepAliveMs, headersTimeoutMs }: ListenerTimeouts, handOver: (socket: Socket) => void) {
    this.#context = new WireContext(pipeline, keepAliveMs, handOver)
    const sweepMs = Math.max(1, Math.min(MAX_SWEEP_MS, keepAliveMs / 4, headersTimeoutMs / 4))
    // Rough times lie up to a sweep back.
    this.#timeouts = { headMs: headersTimeoutMs, idleMs: keepAliveMs + KEEP_ALIVE_MARGIN_MS + sweepMs }
    this.#sweep = setInterval(() => this.#check(), sweepMs).unref()
  }

  accept(socket: Socket): void {
    if (this.#context.isDraining) this.#context.handOver(socket)
    else this.#connections.add(new WireConnection(this.#context, socket, this.#forget))
  }

  drain(): void {
    this.#context.isDraining = true
    for (const connection of this.#connections) connection.drain()
  }

  closeIdleConnections(): void {
    for (const connection of this.#connections) connection.closeIfIdle()
  }

  closeAllConnections(): void {
    for (const connection of this.#connections) connection.destroy()
  }

  close(): void {
    clearInterval(this.#sweep)
  }

  #check(): void {
    const nowMs = performance.now()
    this.#context.roughMs = nowMs
    for (const connection of this.#connections) connection.check(nowMs, this.#timeouts)
  }
}
