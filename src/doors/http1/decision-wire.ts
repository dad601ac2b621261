import type { Socket } from 'node:net'
import type { DecisionAnswer } from '../../decide/decision-answer.ts'
import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import type { ConnectionFront, ListenerTimeouts } from '../../listen/http-listener.ts'
import { AnswerText } from './answer-text.ts'
import { HeadReader } from './head-reader.ts'
import { WireConnection, type WireHouse, type WireTimeouts } from './wire-connection.ts'

/** As `node:http` has it: a client that trusts our Keep-Alive to the last moment shall not find the door closed. */
const KEEP_ALIVE_MARGIN_MS = 1000
/** How often connections are looked at, at the least. */
const MAX_SWEEP_MS = 1000

/** More are in use at a time only while a store is slow. */
const MAX_IDLE_READERS = 64

/**
 * The fast wire of the decision port: answers plain questions straight from the socket, and hands a connection over to
 * `node:http` for good as soon as it says anything else.
 */
export class DecisionWire implements ConnectionFront, WireHouse {
  isDraining = false
  roughMs = performance.now()
  readonly handOver: (socket: Socket) => void
  readonly #pipeline: DecisionPipeline
  readonly #text: AnswerText
  readonly #timeouts: WireTimeouts
  readonly #connections = new Set<WireConnection>()
  readonly #readers: HeadReader[] = [new HeadReader()]
  /** One timer for all connections, and no look at the clock per request. */
  readonly #sweep: NodeJS.Timeout

  constructor(pipeline: DecisionPipeline, { keepAliveMs, headersTimeoutMs }: ListenerTimeouts, handOver: (socket: Socket) => void) {
    this.#pipeline = pipeline
    this.#text = new AnswerText(keepAliveMs)
    this.handOver = handOver
    const sweepMs = Math.max(1, Math.min(MAX_SWEEP_MS, keepAliveMs / 4, headersTimeoutMs / 4))
    // Rough times lie up to a sweep back.
    this.#timeouts = { headMs: headersTimeoutMs, idleMs: keepAliveMs + KEEP_ALIVE_MARGIN_MS + sweepMs }
    this.#sweep = setInterval(() => this.#check(), sweepMs).unref()
  }

  accept(socket: Socket): void {
    if (this.isDraining) this.handOver(socket)
    else this.#connections.add(new WireConnection(this, socket))
  }

  drain(): void {
    this.isDraining = true
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

  get reader(): HeadReader {
    return this.#readers.at(-1)!
  }

  takeReader(): void {
    this.#readers.pop()
    if (this.#readers.length === 0) this.#readers.push(new HeadReader())
  }

  giveBack(reader: HeadReader): void {
    reader.clear()
    if (this.#readers.length < MAX_IDLE_READERS) this.#readers.push(reader)
  }

  decide(question: HeadReader): DecisionAnswer | Promise<DecisionAnswer> {
    return this.#pipeline.decide(question)
  }

  textOf(answer: DecisionAnswer): string {
    return this.#text.of(answer)
  }

  forget(connection: WireConnection): void {
    this.#connections.delete(connection)
  }

  #check(): void {
    this.roughMs = performance.now()
    for (const connection of this.#connections) connection.check(this.roughMs, this.#timeouts)
  }
}
