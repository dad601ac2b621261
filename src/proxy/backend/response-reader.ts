import { HEX_VALUES } from '../../http1/characters.ts'
import { RecentHead } from '../../http1/recent-head.ts'
import { hasBody, InvalidResponse, parseHead, parseTrailers, type ResponseHead } from './response-head.ts'

/** Receives a response as it is read. */
export interface ResponseSink {
  /** A 1xx response has arrived; another response follows. */
  onInterim(head: ResponseHead): void
  onHead(head: ResponseHead): void
  /**
   * Returns whether `onData` should get the chunks with their framing, as received, all but the last one. Called once, when the first chunks of a
   * response have arrived.
   */
  relaysChunks(): boolean
  /** The bytes may lie in a buffer that the next read overwrites, so whatever is needed after the call must be copied. */
  onData(bytes: Buffer): void
  /** Names and values of the trailers in turn. */
  onEnd(trailers: readonly string[]): void
}

/** Enough for the heads that common servers send. */
const MAX_HEAD_BYTES = 64 * 1024
const MAX_CHUNK_LINE_BYTES = 4096
/** A size line with more digits is not relayed as received. */
const MAX_BARE_DIGITS = 8
const MAX_INTERIM_RESPONSES = 100
const CR = 0x0d
const LF = 0x0a
const LINE_END_LENGTH = 2
const HEAD_END = Buffer.from('\r\n\r\n')
const NO_BYTES = Buffer.alloc(0)
const MIN_HELD_BYTES = 256
const NO_TRAILERS: readonly string[] = []
/** The last head on any connection, whatever backend it leads to: how a head is read depends on its bytes alone. */
const RECENT = new RecentHead<ResponseHead>()
/** More bytes are needed. */
const INCOMPLETE = -1

type State = 'idle' | 'head' | 'length' | 'close' | 'chunk_size' | 'chunk_data' | 'chunk_end' | 'trailers' | 'upgraded'

/** Reads one response after the other from the bytes of a connection (RFC 9112). It throws wherever two readers could disagree about where a response ends. */
export class ResponseReader {
  #state: State = 'idle'
  #method = ''
  #isUpgradeAsked = false
  #sink: ResponseSink | undefined
  #interimCount = 0
  /** Start of an incomplete head, chunk frame or trailer section: the first `#heldBytes` bytes of a buffer with room for more. */
  #held: Buffer = NO_BYTES
  #heldBytes = 0
  /** How many held bytes were already searched for the end. Searching them again at each read would take quadratic time if bytes came one by one. */
  #searched = 0
  /** Bytes still to come of the body or of the current chunk. */
  #remaining = 0
  /** The sink's choice; undefined until the first chunks have arrived. */
  #relaysChunks: boolean | undefined
  /** Where the frames begin that were checked but not delivered yet. */
  #runStart = 0
  /** At least one chunk of the response has begun. */
  #hasChunks = false

  begin(method: string, isUpgradeAsked: boolean, sink: ResponseSink): void {
    this.#state = 'head'
    this.#method = method
    this.#isUpgradeAsked = isUpgradeAsked
    this.#sink = sink
    this.#interimCount = 0
    this.#relaysChunks = undefined
    this.#hasChunks = false
    this.#letGo()
  }

  /**
   * Reads as much of these bytes as it can. Returns how many of them follow the end of the response: 0, unless the backend sends out of turn or the
   * connection was upgraded.
   */
  push(bytes: Buffer, from: number, to: number): number {
    if (this.#heldBytes === 0) return this.#readAll(bytes, from, to)
    const next = from + this.#take(bytes, from, to)
    const unread = this.#readAll(this.#held, 0, this.#heldBytes)
    return next === to || this.#isOver() ? unread + to - next : this.push(bytes, next, to)
  }

  /** To be called when the connection has ended. Returns whether the response is complete. */
  finish(): boolean {
    if (this.#state !== 'close') return this.#state === 'idle'
    this.#end(NO_TRAILERS)
    return true
  }

  /** Some bytes of the response have arrived. */
  get hasBegun(): boolean {
    return this.#state !== 'head' || this.#heldBytes > 0 || this.#interimCount > 0
  }

  /** The response was read to its end. */
  get isDone(): boolean {
    return this.#state === 'idle'
  }

  /** The response ends only when its connection does. */
  get isWholeAtClose(): boolean {
    return this.#state === 'close'
  }

  get isUpgraded(): boolean {
    return this.#state === 'upgraded'
  }

  /** Part of a chunk has been relayed, so the client would take anything written now for the rest of that chunk. */
  get isInsideRelayedChunk(): boolean {
    return this.#relaysChunks === true && (this.#state === 'chunk_data' || this.#state === 'chunk_end')
  }

  #isOver(): boolean {
    return this.#state === 'idle' || this.#state === 'upgraded'
  }

  /** Returns how many bytes follow the end of the response. */
  #readAll(bytes: Buffer, from: number, to: number): number {
    let at = from
    this.#runStart = from
    while (at < to && !this.#isOver()) {
      const next = this.#read(bytes, at, to)
      if (next === INCOMPLETE) break
      at = next
      this.#searched = 0
    }
    if (this.#isUndecided()) return this.#decide(bytes, to)
    if (this.#isOver()) {
      this.#letGo()
      return to - at
    }
    if (this.#relaysChunks) this.#relay(bytes, at)
    if (at === to) this.#letGo()
    else this.#hold(bytes, at, to)
    return 0
  }

  #isUndecided(): boolean {
    return this.#relaysChunks === undefined && this.#hasChunks
  }

  /**
   * Asks the sink how it wants the chunks, once those that arrived first have been checked, and reads them again in that way. So nothing of a
   * response is sent if its first chunks are malformed.
   */
  #decide(bytes: Buffer, to: number): number {
    this.#relaysChunks = this.#sink!.relaysChunks()
    this.#state = 'chunk_size'
    this.#searched = 0
    return this.#readAll(bytes, this.#runStart, to)
  }

  #hold(bytes: Buffer, from: number, to: number): void {
    if (bytes === this.#held && from === 0) return
    const held = Buffer.allocUnsafe(Math.max(MIN_HELD_BYTES, 2 * (to - from)))
    this.#heldBytes = bytes.copy(held, 0, from, to)
    this.#held = held
  }

  /** Appends bytes to the held ones, but none beyond the end of a chunk frame. Returns how many were appended. */
  #take(bytes: Buffer, from: number, to: number): number {
    if (this.#state === 'chunk_end') to = from + 1
    else if (this.#state === 'chunk_size') to = Math.min(indexOf(bytes, LF, from, to) + 1, to)
    const length = this.#heldBytes + to - from
    if (length > this.#held.length) {
      const larger = Buffer.allocUnsafe(2 * length)
      this.#held.copy(larger, 0, 0, this.#heldBytes)
      this.#held = larger
    }
    bytes.copy(this.#held, this.#heldBytes, from, to)
    this.#heldBytes = length
    return to - from
  }

  #letGo(): void {
    this.#held = NO_BYTES
    this.#heldBytes = 0
    this.#searched = 0
  }

  /** Reads the next element. Returns where the one after it begins, or INCOMPLETE. */
  #read(bytes: Buffer, at: number, to: number): number {
    switch (this.#state) {
      case 'head':
        return this.#readHead(bytes, at, to)
      case 'length':
      case 'chunk_data':
        return this.#readData(bytes, at, to)
      case 'close':
        this.#sink!.onData(part(bytes, at, to))
        return to
      case 'chunk_size':
        return this.#readChunkSize(bytes, at, to)
      case 'chunk_end':
        return this.#readChunkEnd(bytes, at, to)
      default:
        return this.#readTrailers(bytes, at, to)
    }
  }

  #readHead(bytes: Buffer, at: number, to: number): number {
    const recent = RECENT.find(bytes, at, to)
    if (recent !== undefined) return this.#takeHead(recent, at + RECENT.length)
    const searched = this.#searched
    const end = this.#findHeadEnd(bytes, at, to)
    if ((end < 0 ? to : end) - at > MAX_HEAD_BYTES) throw new InvalidResponse('its head is too large')
    if (end < 0) {
      refuseEarly(bytes, at, to, searched)
      return INCOMPLETE
    }
    const text = bytes.toString('latin1', at, end + HEAD_END.length)
    const head = parseHead(text, text.length - LINE_END_LENGTH)
    RECENT.keep(text, head)
    return this.#takeHead(head, at + text.length)
  }

  /** Handles a complete head. Returns `end`. */
  #takeHead(head: ResponseHead, end: number): number {
    if (head.status === 101) this.#upgrade(head)
    else if (head.status < 200) {
      if (++this.#interimCount > MAX_INTERIM_RESPONSES) throw new InvalidResponse('it has more than 100 interim responses')
      this.#sink!.onInterim(head)
    } else this.#begin(head)
    this.#runStart = end
    return end
  }

  /** Returns -1 if the end has not arrived yet. */
  #findHeadEnd(bytes: Buffer, at: number, to: number): number {
    const end = part(bytes, 0, to).indexOf(HEAD_END, at + Math.max(0, this.#searched - HEAD_END.length + 1))
    if (end < 0) this.#searched = to - at
    return end
  }

  #upgrade(head: ResponseHead): void {
    if (!this.#isUpgradeAsked) throw new InvalidResponse('it switches protocols without being asked')
    this.#state = 'upgraded'
    this.#sink!.onHead(head)
  }

  #begin(head: ResponseHead): void {
    const { contentLength } = head
    if (!hasBody(this.#method, head.status)) this.#state = 'idle'
    else if (head.isChunked) this.#state = 'chunk_size'
    else if (contentLength === undefined) this.#state = 'close'
    else this.#state = contentLength === 0 ? 'idle' : 'length'
    this.#remaining = contentLength ?? 0
    this.#sink!.onHead(head)
    if (this.#state === 'idle') this.#sink!.onEnd(NO_TRAILERS)
  }

  #readData(bytes: Buffer, at: number, to: number): number {
    const end = Math.min(to, at + this.#remaining)
    this.#remaining -= end - at
    // Relayed chunks are delivered with their frames (#relay), and the first chunks only when the sink was asked (#decide).
    if (this.#state === 'length' || this.#relaysChunks === false) this.#sink!.onData(part(bytes, at, end))
    if (this.#remaining === 0) {
      if (this.#state === 'chunk_data') this.#state = 'chunk_end'
      else this.#end(NO_TRAILERS)
    }
    return end
  }

  #readChunkSize(bytes: Buffer, at: number, to: number): number {
    let size = 0
    let digits = 0
    let i = at
    for (; i < to && digits < MAX_BARE_DIGITS; i++, digits++) {
      const digit = HEX_VALUES[bytes[i]!]!
      if (digit < 0) break
      size = size * 16 + digit
    }
    const isBare = digits > 0 && i + 1 < to && bytes[i] === CR && bytes[i + 1] === LF
    return isBare ? this.#beginChunk(bytes, at, i + 2, size, true) : this.#readOddSize(bytes, at, to)
  }

  /** Reads a size line that is incomplete, has an extension, or has more than MAX_BARE_DIGITS digits. */
  #readOddSize(bytes: Buffer, at: number, to: number): number {
    const end = indexOf(bytes, LF, at + this.#searched, to)
    if (end - at > MAX_CHUNK_LINE_BYTES) throw new InvalidResponse('a chunk size is too long')
    if (end === to) {
      this.#searched = to - at
      return INCOMPLETE
    }
    // RFC 9112 7.1.1: unrecognised extensions are ignored
    const [, size] = SIZE_LINE.exec(bytes.toString('latin1', at, end)) ?? []
    if (size === undefined) throw new InvalidResponse('a chunk has no valid size')
    return this.#beginChunk(bytes, at, end + 1, Number.parseInt(size, 16), false)
  }

  /** The size line reaches from `at` to `next`. */
  #beginChunk(bytes: Buffer, at: number, next: number, size: number, isBare: boolean): number {
    if (size === 0 && this.#isUndecided()) return INCOMPLETE
    this.#remaining = size
    this.#state = size === 0 ? 'trailers' : 'chunk_data'
    if (size > 0) this.#hasChunks = true
    if (!this.#relaysChunks || (isBare && size > 0)) return next
    // The last chunk is not relayed, and a size in any spelling but the bare one is rewritten.
    this.#relay(bytes, at)
    if (size > 0) this.#sink!.onData(Buffer.from(`${size.toString(16)}\r\n`, 'latin1'))
    this.#runStart = next
    return next
  }

  /** Delivers the checked frames up to this position. */
  #relay(bytes: Buffer, to: number): void {
    const from = this.#runStart
    this.#runStart = to
    if (to > from) this.#sink!.onData(part(bytes, from, to))
  }

  #readChunkEnd(bytes: Buffer, at: number, to: number): number {
    if (bytes[at] !== CR || (to - at > 1 && bytes[at + 1] !== LF)) throw new InvalidResponse('a chunk is longer than its size')
    if (to - at < 2) return INCOMPLETE
    this.#state = 'chunk_size'
    return at + 2
  }

  #readTrailers(bytes: Buffer, at: number, to: number): number {
    const isEmpty = to - at >= 2 && bytes[at] === CR && bytes[at + 1] === LF
    const end = isEmpty ? at : this.#findHeadEnd(bytes, at, to)
    if ((end < 0 ? to : end) - at > MAX_HEAD_BYTES) throw new InvalidResponse('its trailers are too large')
    if (end < 0) return INCOMPLETE
    this.#end(isEmpty ? NO_TRAILERS : parseTrailers(bytes.toString('latin1', at, end + LINE_END_LENGTH)))
    return isEmpty ? at + 2 : end + HEAD_END.length
  }

  #end(trailers: readonly string[]): void {
    this.#state = 'idle'
    this.#sink!.onEnd(trailers)
  }
}

const SIZE_LINE = /^([0-9a-fA-F]{1,12})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?\r$/

function part(bytes: Buffer, from: number, to: number): Buffer {
  return from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to)
}

/** Returns the next position of the byte, or `to`. Bytes from `to` on are left over from earlier reads. */
function indexOf(bytes: Buffer, byte: number, from: number, to: number): number {
  for (let at = from; at < to; at++) if (bytes[at] === byte) return at
  return to
}

/** Throws at once if an incomplete head can never become valid, instead of waiting for the timeout. The first `searched` bytes were checked before. */
function refuseEarly(bytes: Buffer, at: number, to: number, searched: number): void {
  const start = bytes.toString('latin1', at, Math.min(to, at + 5))
  if (!'HTTP/'.startsWith(start)) throw new InvalidResponse('it does not begin with HTTP/')
  for (let lineEnd = indexOf(bytes, LF, at + searched, to); lineEnd < to; lineEnd = indexOf(bytes, LF, lineEnd + 1, to)) {
    if (lineEnd === at || bytes[lineEnd - 1] !== CR) throw new InvalidResponse('its lines end without CR')
  }
}
