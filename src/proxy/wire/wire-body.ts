import type { BodyReader, BodySource } from '../downstream.ts'
import { ChunkedFrames } from './chunked-frames.ts'
import type { UnreadBytes } from './unread-bytes.ts'
import type { WireContext } from './wire-context.ts'

/** All bodies share it, because each look ahead is done within one call. */
const LOOKAHEAD = new ChunkedFrames()

/** The body of the request in progress on a connection. */
export class WireBody implements BodySource {
  readonly #context: WireContext
  readonly #unread: UnreadBytes
  readonly #onResumed: () => void
  #reader: BodyReader | undefined
  /** Created for the first chunked body on the connection, and reused. */
  #chunks: ChunkedFrames | undefined
  #isChunked = false
  #remaining = 0
  /** The body is being read, and is not paused. */
  isFlowing = false
  /** Nobody wants the rest of the body. */
  isDropped = false
  isGone = false
  /** Bytes that have arrived behind the head, while that is handled. They are not among the unread bytes yet, or the head is still before them there. */
  #arrived: Buffer | undefined
  #arrivedFrom = 0
  #arrivedEnd = 0
  /** How long the client may be silent; 0 means no limit. */
  idleMs = 0
  /** When the silence began. */
  idleSinceMs = 0

  /** `onResumed` is called when reading may go on, which must happen in a later turn of the event loop. */
  constructor(context: WireContext, unread: UnreadBytes, onResumed: () => void) {
    this.#context = context
    this.#unread = unread
    this.#onResumed = onResumed
  }

  /** Begins the body of the next request. */
  begin(contentLength: number, isChunked: boolean): void {
    this.#reader = undefined
    this.#remaining = contentLength
    this.#isChunked = isChunked
    this.isFlowing = false
    this.isDropped = false
    this.idleMs = 0
    if (!isChunked) return
    this.#chunks ??= new ChunkedFrames()
    this.#chunks.begin()
  }

  get isRead(): boolean {
    return this.#isChunked ? this.#chunks!.isDone : this.#remaining === 0
  }

  /** The trailers say that nothing follows this body. */
  get isLast(): boolean {
    return this.#isChunked && this.#chunks!.isLast
  }

  /** To be called before the head is handled, with the bytes behind it: the body, a part of it, or other requests as well. */
  announce(bytes: Buffer, from: number, end: number): void {
    this.#arrived = bytes
    this.#arrivedFrom = from
    this.#arrivedEnd = end
  }

  /** To be called when the head was handled. */
  endAnnouncement(): void {
    this.#arrived = undefined
  }

  /** What has arrived of a chunked body may be only part of a size line. */
  get comesNext(): boolean {
    return this.#arrived !== undefined && this.#arrivedFrom < this.#arrivedEnd && !this.#isChunked
  }

  get isComplete(): boolean {
    if (this.isRead) return true
    const { buffer, at, end } = this.#unread
    try {
      if (this.#arrived !== undefined) return this.endsWithin(this.#arrived, this.#arrivedFrom, this.#arrivedEnd)
      return this.endsWithin(buffer, at, end)
    } catch {
      return false // whoever reads the body will report the error
    }
  }

  /** Whether the body ends within these bytes, which come next; this does not read them. Throws MalformedChunks. */
  endsWithin(bytes: Buffer, from: number, end: number): boolean {
    if (!this.#isChunked) return end - from >= this.#remaining
    LOOKAHEAD.follow(this.#chunks!)
    let at = from
    while (at < end && !LOOKAHEAD.isDone) at = LOOKAHEAD.isInData ? LOOKAHEAD.skipData(at, end) : LOOKAHEAD.skipFrame(bytes, at, end)
    return LOOKAHEAD.isDone
  }

  giveTo(reader: BodyReader | undefined): void {
    this.#reader = reader
    if (reader !== undefined && this.isRead) process.nextTick(() => this.#tell('onEnd'))
  }

  pause(): void {
    this.isFlowing = false
  }

  resume(): void {
    if (this.isFlowing) return
    this.isFlowing = true
    if (!this.isRead) this.#onResumed()
  }

  /** Reads the rest of the body and discards it. */
  drop(): void {
    this.isDropped = true
    this.giveTo(undefined)
    this.resume()
  }

  limitIdle(ms: number): void {
    this.idleMs = ms
    this.idleSinceMs = this.#context.roughMs
  }

  /**
   * To be called while the body is flowing and not read to its end. Gives the available part to the reader, and returns where that ends. Throws
   * MalformedChunks.
   */
  read(bytes: Buffer, from: number, end: number): number {
    const next = this.#isChunked ? this.#readChunks(bytes, from, end) : this.#readLength(bytes, from, end)
    if (this.isRead) this.#tell('onEnd')
    return next
  }

  /** To be called when the connection is closed. */
  onGone(): void {
    this.isGone = true
    this.#tell('onGone')
  }

  #readLength(bytes: Buffer, from: number, end: number): number {
    const next = Math.min(end, from + this.#remaining)
    this.#remaining -= next - from
    this.#give(bytes, from, next)
    return next
  }

  /** Moves the data of many small chunks together, so that the reader gets it in one piece. */
  #readChunks(bytes: Buffer, from: number, end: number): number {
    const chunks = this.#chunks!
    let at = from
    let dataAt = -1
    let dataEnd = -1
    while (at < end && !chunks.isDone) {
      if (!chunks.isInData) {
        at = chunks.skipFrame(bytes, at, end)
        continue
      }
      const next = chunks.skipData(at, end)
      if (dataAt < 0) {
        dataAt = at
        dataEnd = next
      } else {
        bytes.copyWithin(dataEnd, at, next)
        dataEnd += next - at
      }
      at = next
    }
    if (dataAt >= 0) this.#give(bytes, dataAt, dataEnd)
    return at
  }

  #give(bytes: Buffer, from: number, end: number): void {
    const reader = this.#reader
    if (reader === undefined) return
    try {
      reader.onData(bytes.subarray(from, end))
    } catch (error) {
      reader.abandon(error)
    }
  }

  #tell(callback: 'onEnd' | 'onGone'): void {
    const reader = this.#reader
    try {
      reader?.[callback]()
    } catch (error) {
      reader?.abandon(error)
    }
  }
}
