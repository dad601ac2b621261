/**
 * Splits a stream of bytes into server-sent events, with any line ends (LF, CRLF, CR, mixed) and any chunks.
 * Every byte is in exactly one piece, in order. An event is a piece as soon as its blank line has arrived; a CR ends that
 * line at once, and an LF that follows is a piece of its own.
 */
export class SseFraming {
  readonly #maxEventBytes: number
  /** Bytes of an incomplete event, from #start up to #end. Never written to again once pieces point into it. */
  #buffer: Buffer = EMPTY
  #start = 0
  #end = 0
  /** The buffer was allocated here, and the room after #end is free. */
  #isOwn = false
  /** How far the buffer was scanned: no byte is scanned twice, or chunks of one byte would cost quadratic time. */
  #scanned = 0
  #lineStart = 0
  /** Starts and ends of the event's lines so far, relative to #start. */
  #lines: number[] = []
  /** The last byte was a CR: an LF now belongs to that line end. */
  #isAfterCr = false
  /** Bytes of an oversized event that were passed on already. */
  #passedBytes = 0
  #isFirst = true

  constructor(maxEventBytes: number) {
    this.#maxEventBytes = maxEventBytes
  }

  push(chunk: Buffer): SsePiece[] {
    this.#append(chunk)
    const pieces: SsePiece[] = []
    this.#scan(pieces)
    if (this.#end - this.#start + this.#passedBytes > this.#maxEventBytes) this.#pass(pieces)
    if (this.#end > this.#start && !this.#isOwn) this.#keep()
    return pieces
  }

  /** A part of an oversized event was passed on, but not its end. */
  get isInsideOversize(): boolean {
    return this.#passedBytes > 0
  }

  /** The rest at the end of the stream: clients also read an event without a blank line. */
  end(): SsePiece[] {
    if (this.#end === this.#start && this.#passedBytes === 0) return []
    if (this.#lineStart < this.#end) this.#lines.push(this.#lineStart - this.#start, this.#end - this.#start)
    const pieces: SsePiece[] = []
    this.#complete(pieces, this.#end, false)
    return pieces
  }

  #append(chunk: Buffer): void {
    const held = this.#end - this.#start
    if (held === 0) {
      this.#buffer = chunk
      this.#isOwn = false
      this.#shift(this.#start)
      this.#end = chunk.length
      return
    }
    if (this.#end + chunk.length > this.#buffer.length || !this.#isOwn) {
      const larger = Buffer.allocUnsafe(Math.max((held + chunk.length) * 2, MIN_BUFFER_BYTES))
      this.#buffer.copy(larger, 0, this.#start, this.#end)
      this.#buffer = larger
      this.#isOwn = true
      this.#shift(this.#start)
      this.#end = held
    }
    chunk.copy(this.#buffer, this.#end)
    this.#end += chunk.length
  }

  /** Of a chunk, the next push finds nothing: what is not complete is copied. */
  #keep(): void {
    const held = this.#end - this.#start
    const own = Buffer.allocUnsafe(Math.max(held * 2, MIN_BUFFER_BYTES))
    this.#buffer.copy(own, 0, this.#start, this.#end)
    this.#buffer = own
    this.#isOwn = true
    this.#shift(this.#start)
    this.#end = held
  }

  /** The bytes now begin `by` earlier in their buffer. */
  #shift(by: number): void {
    this.#start -= by
    this.#scanned -= by
    this.#lineStart -= by
  }

  #scan(pieces: SsePiece[]): void {
    const end = this.#end
    // The room after the end of our own buffer is uninitialised.
    const buffer = this.#isOwn ? this.#buffer.subarray(0, end) : this.#buffer
    let i = this.#scanned
    let [lf, cr] = [-1, -1]
    while (i < end) {
      const from = i
      // Native searches, each repeated only when its result was passed: streams use one kind or the other.
      if (lf < i) lf = indexOf(buffer, LF, i, end)
      if (cr < i) cr = indexOf(buffer, CR, i, end)
      i = Math.min(lf, cr)
      if (i > from) this.#isAfterCr = false
      if (i === end) break
      const byte = buffer[i]
      if (byte === LF && this.#isAfterCr) this.#endCrLf(pieces, i)
      else if (i > this.#lineStart) this.#endLine(i, byte === CR)
      else {
        this.#isAfterCr = byte === CR
        this.#complete(pieces, i + 1, true)
      }
      i++
    }
    this.#scanned = end
  }

  #endLine(at: number, isCr: boolean): void {
    this.#lines.push(this.#lineStart - this.#start, at - this.#start)
    this.#lineStart = at + 1
    this.#isAfterCr = isCr
  }

  /** The LF of a line end whose CR was handled already, and may have ended an event that was passed on. */
  #endCrLf(pieces: SsePiece[], at: number): void {
    this.#isAfterCr = false
    this.#lineStart = at + 1
    if (at !== this.#start || this.#passedBytes > 0) return
    pieces.push({ bytes: this.#buffer.subarray(at, at + 1), kind: 'line_end', lines: NO_LINES, isFirst: false, isEnded: true })
    this.#start = at + 1
  }

  #complete(pieces: SsePiece[], after: number, isEnded: boolean): void {
    // A chunk that is exactly one event, as most are, needs no view.
    const isWhole = this.#start === 0 && after === this.#buffer.length
    const bytes = isWhole ? this.#buffer : this.#buffer.subarray(this.#start, after)
    const kind = this.#passedBytes + bytes.length > this.#maxEventBytes ? 'oversize' : 'event'
    pieces.push({ bytes, kind, lines: this.#lines, isFirst: this.#isFirst, isEnded })
    this.#start = after
    this.#lineStart = after
    this.#lines = []
    this.#passedBytes = 0
    this.#isFirst = false
  }

  /** Passes on an event that is too large to hold, before its end. */
  #pass(pieces: SsePiece[]): void {
    const bytes = this.#buffer.subarray(this.#start, this.#end)
    this.#passedBytes += bytes.length
    // Whether the current line is empty must be kept; where it began need not be.
    const isLineEmpty = this.#lineStart === this.#end
    this.#start = this.#end
    this.#lineStart = isLineEmpty ? this.#end : this.#end - 1
    this.#lines = []
    pieces.push({ bytes, kind: 'part', lines: NO_LINES, isFirst: false, isEnded: false })
  }
}

/** The next index of the byte, or `end`. */
function indexOf(buffer: Buffer, byte: number, from: number, end: number): number {
  const at = buffer.indexOf(byte, from)
  return at < 0 ? end : at
}

export interface SsePiece {
  readonly bytes: Buffer
  /** An event; an oversized one, or its last part; another part of an oversized one; the LF after an event that a CR ended. */
  readonly kind: 'event' | 'oversize' | 'part' | 'line_end'
  /** Starts and ends of the lines that are not empty, in `bytes`. */
  readonly lines: readonly number[]
  /** It may start with a byte order mark. */
  readonly isFirst: boolean
  /** It ends with its blank line. */
  readonly isEnded: boolean
}

const EMPTY = Buffer.alloc(0)
const NO_LINES: readonly number[] = []
const MIN_BUFFER_BYTES = 1024
const LF = 0x0a
const CR = 0x0d
