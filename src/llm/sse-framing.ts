import { type JsonEvents, JsonScanner } from './json-scanner.ts'

/**
 * Splits a stream of bytes into server-sent events, with any line ends (LF, CRLF, CR, mixed) and any chunks. Every byte is in exactly one piece, in
 * order. An event becomes a piece as soon as its blank line has arrived; a CR ends that line at once, and an LF that follows is a piece of its own.
 *
 * After `push`, `next` finds one piece after the other, and the framing itself describes the last one found. Chunks are not kept: an incomplete event
 * is copied. A piece lies in the chunk or in such a copy, which is never written to again.
 */
export class SseFraming implements SsePiece {
  bytes: Buffer = EMPTY
  start = 0
  end = 0
  kind: SsePiece['kind'] = 'event'
  lines: number[] = []
  lineCount = 0
  isFirst = false
  isEnded = false

  readonly #maxEventBytes: number
  #chunk: Buffer = EMPTY
  /** Position in the chunk where the bytes of the current event begin. */
  #at = 0
  /** How far the chunk has been scanned. No byte is scanned twice, or else chunks of one byte would cost quadratic time. */
  #scanned = 0
  /** Positions of the next LF and CR in the chunk, or the chunk's length if there are no more. */
  #lf = -1
  #cr = -1
  /** Bytes of the current event from earlier chunks. */
  #held: Buffer = EMPTY
  #heldBytes = 0
  /** Position where the current line begins, counted from the start of the event. */
  #lineStart = 0
  #lineCount = 0
  /** Whether the last byte was a CR, so that an LF now belongs to the same line end. */
  #isAfterCr = false
  /** Bytes of an oversized event that have already been passed on. */
  #passedBytes = 0
  #isBeforeFirst = true

  constructor(maxEventBytes: number) {
    this.#maxEventBytes = maxEventBytes
  }

  /** May be called only after `next` has returned false. */
  push(chunk: Buffer): void {
    this.#chunk = chunk
    this.#at = 0
    this.#scanned = 0
    this.#lf = -1
    this.#cr = -1
  }

  /** Whether a part of an oversized event has been passed on, but not its end. */
  get isInsideOversize(): boolean {
    return this.#passedBytes > 0
  }

  /** Returns false when the chunk has no further piece. */
  next(): boolean {
    const chunk = this.#chunk
    const end = chunk.length
    let i = this.#scanned
    while (i < end) {
      const from = i
      // Each native search is repeated only after its last result was passed, because streams use one kind of line end or the other.
      if (this.#lf < i) this.#lf = indexOf(chunk, LF, i)
      if (this.#cr < i) this.#cr = indexOf(chunk, CR, i)
      i = Math.min(this.#lf, this.#cr)
      if (i > from) this.#isAfterCr = false
      if (i === end) break
      const isCr = i === this.#cr
      const at = this.#heldBytes + i - this.#at
      if (!isCr && this.#isAfterCr) {
        if (this.#endCrLf(i, at)) return true
      } else if (at > this.#lineStart) this.#endLine(at, isCr)
      else {
        this.#isAfterCr = isCr
        this.#scanned = i + 1
        this.#complete(i + 1, true)
        return true
      }
      i++
    }
    this.#scanned = end
    return this.#keep()
  }

  /** Describes the rest at the end of the stream, because clients also read an event without a blank line. Returns false if there is none. */
  finish(): boolean {
    this.push(EMPTY)
    if (this.#heldBytes === 0 && this.#passedBytes === 0) return false
    if (this.#lineStart < this.#heldBytes) this.#endLine(this.#heldBytes, false)
    this.#complete(0, false)
    return true
  }

  #endLine(at: number, isCr: boolean): void {
    this.lines[this.#lineCount++] = this.#lineStart
    this.lines[this.#lineCount++] = at
    this.#lineStart = at + 1
    this.#isAfterCr = isCr
  }

  /** Handles the LF of a line end whose CR was handled already. It is a piece of its own if the CR ended an event. */
  #endCrLf(i: number, at: number): boolean {
    this.#isAfterCr = false
    this.#lineStart = at + 1
    if (at > 0 || this.#passedBytes > 0) return false
    this.#lineStart = 0
    this.#at = i + 1
    this.#scanned = i + 1
    this.#describe('line_end', this.#chunk, i, i + 1, true)
    return true
  }

  #complete(after: number, isEnded: boolean): void {
    const size = this.#heldBytes + after - this.#at
    const kind = this.#passedBytes + size > this.#maxEventBytes ? 'oversize' : 'event'
    if (this.#heldBytes === 0) this.#describe(kind, this.#chunk, this.#at, after, isEnded)
    else {
      this.#hold(after)
      this.#describe(kind, this.#held, 0, size, isEnded)
      this.#held = EMPTY
    }
    this.isFirst = this.#isBeforeFirst
    this.lineCount = this.#lineCount
    this.#at = after
    this.#heldBytes = 0
    this.#lineStart = 0
    this.#lineCount = 0
    this.#passedBytes = 0
    this.#isBeforeFirst = false
  }

  /** Handles a chunk that ends within an event: the event's bytes are copied or, if there are too many, passed on. */
  #keep(): boolean {
    const end = this.#chunk.length
    if (this.#at === end) return this.#rest()
    const size = this.#heldBytes + end - this.#at
    const isTooLarge = size + this.#passedBytes > this.#maxEventBytes
    if (isTooLarge && this.#heldBytes === 0) this.#describe('part', this.#chunk, this.#at, end, false)
    else this.#hold(end)
    this.#at = end
    if (!isTooLarge) return this.#rest()
    if (this.#heldBytes > 0) this.#describe('part', this.#held, 0, size, false)
    this.#held = EMPTY
    this.#passedBytes += size
    // Only whether the current line is empty still matters, not where it began.
    this.#lineStart = this.#lineStart === size ? 0 : -1
    this.#lineCount = 0
    this.#heldBytes = 0
    return true
  }

  /** Drops everything except the copy of an incomplete event. */
  #rest(): false {
    this.#chunk = EMPTY
    this.#at = 0
    this.#scanned = 0
    this.bytes = EMPTY
    if (this.#lineCount === 0 && this.lines.length > MAX_IDLE_LINES) this.lines = []
    return false
  }

  /** Copies the event's bytes in the chunk, up to `to`. */
  #hold(to: number): void {
    const size = this.#heldBytes + to - this.#at
    if (size > this.#held.length) {
      const larger = Buffer.allocUnsafe(Math.max(size * 2, MIN_HELD_BYTES))
      this.#held.copy(larger, 0, 0, this.#heldBytes)
      this.#held = larger
    }
    this.#chunk.copy(this.#held, this.#heldBytes, this.#at, to)
    this.#heldBytes = size
  }

  #describe(kind: SsePiece['kind'], bytes: Buffer, start: number, end: number, isEnded: boolean): void {
    this.kind = kind
    this.bytes = bytes
    this.start = start
    this.end = end
    this.isEnded = isEnded
    this.isFirst = false
    this.lineCount = 0
  }
}

/** Returns the next index of the byte, or the buffer's length. */
function indexOf(buffer: Buffer, byte: number, from: number): number {
  const at = buffer.indexOf(byte, from)
  return at < 0 ? buffer.length : at
}

export interface SsePiece {
  /** The piece lies in these bytes, from `start` up to `end`. */
  readonly bytes: Buffer
  readonly start: number
  readonly end: number
  /** A complete event; an oversized event or its last part; an earlier part of an oversized event; or the LF after an event that a CR ended. */
  readonly kind: 'event' | 'oversize' | 'part' | 'line_end'
  /** Starts and ends of the event's lines that are not empty, counted from `start`. Only the first `lineCount` numbers are valid. */
  readonly lines: readonly number[]
  readonly lineCount: number
  /** Whether this is the first event, which may start with a byte order mark. */
  readonly isFirst: boolean
  /** Whether the piece ends with a blank line. */
  readonly isEnded: boolean
}

const EMPTY = Buffer.alloc(0)
const MIN_HELD_BYTES = 1024
/** The array of line positions is dropped after an event that made it longer than this. */
const MAX_IDLE_LINES = 64
const LF = 0x0a
const CR = 0x0d

/** The data of an event, and its position in the bytes that contain the event. */
export interface EventData {
  readonly text: string
  /** Start and end of the value of each `data` line. */
  readonly spans: readonly number[]
}

/** Joins the `data` lines of an event, and returns undefined if it has none. Comments and other fields are ignored. */
export function readEventData({ bytes, start, lines, lineCount, isFirst }: SsePiece): EventData | undefined {
  const spans: number[] = []
  for (let i = 0; i < lineCount; i += 2) {
    const end = start + lines[i + 1]!
    const mark = isFirst && i === 0 && hasByteOrderMark(bytes, start) ? BYTE_ORDER_MARK_BYTES : 0
    const value = dataStart(bytes, start + lines[i]! + mark, end)
    if (value >= 0) spans.push(value, end)
  }
  if (spans.length === 0) return undefined
  let text = bytes.toString('utf8', spans[0], spans[1])
  for (let i = 2; i < spans.length; i += 2) text += `\n${bytes.toString('utf8', spans[i], spans[i + 1])}`
  return { text, spans }
}

/** Whether each line of an event is a comment or one of the fields that events have, so that it contains nothing beside its data. */
export function hasOnlyFields({ bytes, start, lines, lineCount, isFirst }: SsePiece): boolean {
  for (let i = 0; i < lineCount; i += 2) {
    const mark = isFirst && i === 0 && hasByteOrderMark(bytes, start) ? BYTE_ORDER_MARK_BYTES : 0
    const line = bytes.toString(
      'latin1',
      start + lines[i]! + mark,
      Math.min(start + lines[i]! + mark + LONGEST_FIELD, start + lines[i + 1]!),
    )
    if (!FIELD.test(line)) return false
  }
  return true
}

/** Matches the beginning of a line, up to its colon. */
const FIELD = /^(?:data|event|id|retry)?(?::|$)/
/** Enough bytes of a line to tell its field, with the colon and one byte more. */
const LONGEST_FIELD = 'event:'.length + 1

/** An event up to this size is parsed within two or three milliseconds, whatever it contains. */
export const SMALL_EVENT_BYTES = 64 * 1024
/** Limits for larger events. A mebibyte of log probabilities stays below this; a mebibyte of `{},` has twice as many values. */
const LARGE_EVENT_LIMITS = { depth: 1000, values: 150_000 }

/** Returns whether the data of an event can be parsed without blocking the event loop for long. */
export function canBeParsed({ bytes, start, end }: SsePiece, { spans }: EventData): boolean {
  if (end - start <= SMALL_EVENT_BYTES) return true
  const scanner = new JsonScanner(NO_EVENTS, LARGE_EVENT_LIMITS)
  for (let i = 0; i < spans.length; i += 2) scanner.push(bytes, spans[i], spans[i + 1])
  return !scanner.isBeyondLimits
}

const NO_EVENTS: JsonEvents = { name() {}, string() {}, number() {}, literal() {}, begin() {}, end() {} }
const BYTE_ORDER_MARK_BYTES = 3
const COLON = 0x3a
const SPACE = 0x20

function hasByteOrderMark(bytes: Buffer, at: number): boolean {
  return bytes[at] === 0xef && bytes[at + 1] === 0xbb && bytes[at + 2] === 0xbf
}

/** Returns where the value of a `data` line begins, or -1 for any other line. One space after the colon is skipped. */
function dataStart(bytes: Buffer, start: number, end: number): number {
  if (bytes[start] !== 0x64 || bytes[start + 1] !== 0x61 || bytes[start + 2] !== 0x74 || bytes[start + 3] !== 0x61) return -1
  const colon = start + 4
  if (colon === end) return end
  if (colon > end || bytes[colon] !== COLON) return -1
  return colon + 1 < end && bytes[colon + 1] === SPACE ? colon + 2 : colon + 1
}
