import type { Socket } from 'node:net'
import { framed, PREFIX_BYTES } from '../message-framing.ts'
import { type CallStream, WaitingOutput } from './call-stream.ts'
import { DEFAULT_WINDOW, MAX_FRAME_BYTES, MAX_WINDOW } from './frame-reader.ts'
import type { Http2Context } from './http2-context.ts'

export const TOO_LARGE = -1

/** Sends messages as far as the client's flow-control windows allow, and queues the rest. */
export class SendWindows {
  readonly #context: Http2Context
  readonly #socket: Socket
  readonly #onSent: (stream: CallStream, trailers: Buffer) => void
  /** Send window of the connection. */
  #window = DEFAULT_WINDOW
  readonly #waiting = new Set<CallStream>()
  /** Bytes queued by all streams of the connection. */
  #waitingBytes = 0

  /** `onSent` is called when all queued messages of a stream are sent and its trailers have to follow. */
  constructor(context: Http2Context, socket: Socket, onSent: (stream: CallStream, trailers: Buffer) => void) {
    this.#context = context
    this.#socket = socket
    this.#onSent = onSent
  }

  get waitingBytes(): number {
    return this.#waitingBytes
  }

  get isFull(): boolean {
    return this.#waitingBytes > this.#context.limits.maxWaitingBytes
  }

  send(stream: CallStream, message: Uint8Array): void {
    const bytes = PREFIX_BYTES + message.length
    const fits = bytes <= stream.sendWindow && bytes <= this.#window && bytes <= MAX_FRAME_BYTES
    if (fits && stream.waiting === undefined) {
      this.#window -= bytes
      stream.sendWindow -= bytes
      this.#context.writer.message(this.#socket, stream.id, message)
      return
    }
    stream.waiting ??= new WaitingOutput(this.#context.nowMs)
    stream.waiting.add(framed(message))
    this.#waitingBytes += bytes
    this.#waiting.add(stream)
    this.#goOn(stream, stream.waiting)
  }

  forget(stream: CallStream): void {
    if (stream.waiting === undefined) return
    this.#waitingBytes -= stream.waiting.bytes
    this.#waiting.delete(stream)
    stream.waiting = undefined
  }

  /** Widens the connection's window. Returns how many streams were visited, or TOO_LARGE if the window would exceed MAX_WINDOW. */
  widen(bytes: number): number {
    const wasClosed = this.#window <= 0
    this.#window += bytes
    if (this.#window > MAX_WINDOW) return TOO_LARGE
    if (!wasClosed) return 0
    const visited = this.#waiting.size
    for (const stream of this.#waiting) this.#goOn(stream, stream.waiting!)
    return visited
  }

  /** Changes a stream's window, which may also shrink, even below zero. Returns false if it would exceed MAX_WINDOW. */
  widenStream(stream: CallStream, bytes: number): boolean {
    stream.sendWindow += bytes
    if (stream.sendWindow > MAX_WINDOW) return false
    if (stream.waiting !== undefined) this.#goOn(stream, stream.waiting)
    return true
  }

  #goOn(stream: CallStream, waiting: WaitingOutput): void {
    const window = Math.min(stream.sendWindow, this.#window)
    if (window <= 0) return
    const sent = waiting.write(this.#context.writer, this.#socket, stream.id, window)
    this.#window -= sent
    stream.sendWindow -= sent
    this.#waitingBytes -= sent
    waiting.sinceMs = this.#context.nowMs
    if (waiting.bytes > 0) return
    this.forget(stream)
    if (waiting.trailers !== undefined) this.#onSent(stream, waiting.trailers)
  }
}
