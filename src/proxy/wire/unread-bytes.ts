import type { Socket } from 'node:net'
import type { WireContext } from './wire-context.ts'

const NO_BYTES = Buffer.alloc(0)
const LEAST_BYTES = 256

/** Bytes of a connection that wait for their turn. They have memory of their own, because reads go to a buffer that all connections share. */
export class UnreadBytes {
  buffer: Buffer = NO_BYTES
  at = 0
  end = 0

  get size(): number {
    return this.end - this.at
  }

  /** Adds a part of these bytes. Capacity is doubled, because bytes that come one at a time must not take quadratic time. */
  add(bytes: Buffer, from: number, to: number): void {
    const length = to - from
    if (this.end + length > this.buffer.length) this.#makeRoom(length)
    bytes.copy(this.buffer, this.end, from, to)
    this.end += length
  }

  /** Marks everything before `at` as read. */
  readTo(at: number): void {
    if (at === this.end) this.clear()
    else this.at = at
  }

  clear(): void {
    this.buffer = NO_BYTES
    this.at = 0
    this.end = 0
  }

  /** Returns the waiting bytes, and forgets them. */
  take(): Buffer {
    const bytes = this.buffer.subarray(this.at, this.end)
    this.clear()
    return bytes
  }

  #makeRoom(length: number): void {
    const size = this.size
    // A long pipeline that arrives at once gets no more memory than it needs.
    const capacity = size === 0 ? Math.max(length, LEAST_BYTES) : Math.max(2 * size, size + length)
    const larger = Buffer.allocUnsafeSlow(capacity)
    this.buffer.copy(larger, 0, this.at, this.end)
    this.buffer = larger
    this.at = 0
    this.end = size
  }
}

/** Limit for all connections of a wire together. Beyond it, a connection that must stop reading because of pipelined requests is closed instead. */
const MAX_HELD_BYTES = 16 * 1024 * 1024

/** Pauses and resumes reading a connection, and counts the pipelined bytes that wait on it meanwhile. */
export class ReadPause {
  readonly #context: WireContext
  readonly #socket: Socket
  /** Number of bytes that this connection has added to the total of all connections. */
  #heldBytes = 0
  isOn = false

  constructor(context: WireContext, socket: Socket) {
    this.#context = context
    this.#socket = socket
  }

  /** `pipelinedBytes` wait for the response to a request; 0 means that the connection waits for a slow backend to take its upload. */
  begin(pipelinedBytes: number): void {
    if (this.isOn) return
    this.isOn = true
    this.#socket.pause()
    const context = this.#context
    this.#heldBytes = pipelinedBytes
    context.heldBytes += pipelinedBytes
    if (pipelinedBytes === 0 || context.heldBytes <= MAX_HELD_BYTES) return
    context.handlers.noteMalformed('too many pipelined requests')
    this.#socket.destroy()
  }

  end(): void {
    if (!this.isOn) return
    this.isOn = false
    this.#context.heldBytes -= this.#heldBytes
    this.#heldBytes = 0
    this.#socket.resume()
  }
}
