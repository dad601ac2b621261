import { HEX_VALUES } from '../../http1/characters.ts'
import { RecentHead } from '../../http1/head-fields.ts'
import { hasBody, InvalidResponse, parseHead, parseTrailers, type ResponseHead } from './response-head.ts'

/** Whoever waits for a response. */
export interface ResponseSink {
  /** A 1xx response, which another follows. */
  onInterim(head: ResponseHead): void
  onHead(head: ResponseHead): void
  /**
   * Asked once, when the first chunks of a response are here: whether `onData` is to get its chunks with their frames, as they came, all but the
   * last one.
   */
  relaysChunks(): boolean
  /** The bytes may be in a buffer that the next read overwrites: what is needed beyond the call is copied. */
  onData(bytes: Buffer): void
  /** Names and values of the trailers in turn. */
  onEnd(trailers: readonly string[]): void
}

/** As much as common servers send. */
const MAX_HEAD_BYTES = 64 * 1024
const MAX_CHUNK_LINE_BYTES = 4096
/** A size line that is relayed as it came has no more digits. */
const MAX_BARE_DIGITS = 8
const MAX_INTERIM_RESPONSES = 100
const CR = 0x0d
const LF = 0x0a
const LINE_END_LENGTH = 2
const HEAD_END = Buffer.from('\r\n\r\n')
const NO_BYTES = Buffer.alloc(0)
const MIN_HELD_BYTES = 256
const NO_TRAILERS: readonly string[] = []
/** Of all connections: they are those of one backend. */
const RECENT = new RecentHead<ResponseHead>()
/** More bytes are needed. */
const INCOMPLETE = -1

type State = 'idle' | 'head' | 'length' | 'close' | 'chunk_size' | 'chunk_data' | 'chunk_end' | 'trailers' | 'upgraded'

/**
 * Reads one response after the other from the bytes of a connection (RFC 9112). Strict: where two readers could disagree
 * about where a response ends, it throws.
 */
export class ResponseReader {
  #state: State = 'idle'
  #method = ''
  #isUpgradeAsked = false
  #sink: ResponseSink | undefined
  #interimCount = 0
  /** Bytes of a head, a size or a trailer that is not complete yet: so many of a buffer that has room for more. */
  #held: Buffer = NO_BYTES
  #heldBytes = 0
  /** As many of them were searched for the end: none is copied or searched again for each that comes, or one byte a read would take quadratic time. */
  #searched = 0
  /** Of the body, or of the chunk at hand. */
  #remaining = 0
  /** Undefined until the first chunks are here. */
  #relaysChunks: boolean | undefined
  /** Where the frames begin that were checked and not handed over yet. */
  #runStart = 0
  /** There are chunks among them. */
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
   * Reads what it can of these bytes. Returns how many of them are behind the response's end: none, unless the backend sends out of turn or was
   * upgraded.
   */
  push(bytes: Buffer, from: number, to: number): number {
    if (this.#heldBytes === 0) return this.#readAll(bytes, from, to)
    const next = from + this.#take(bytes, from, to)
    const unread = this.#readAll(this.#held, 0, this.#heldBytes)
    return next === to || this.#isOver ? unread + to - next : this.push(bytes, next, to)
  }

  /** The connection has ended. Returns whether the response is whole. */
  finish(): boolean {
    if (this.#state !== 'close') return this.#state === 'idle'
    this.#end(NO_TRAILERS)
    return true
  }

  /** A response began: some of its bytes were read. */
  get hasBegun(): boolean {
    return this.#state !== 'head' || this.#heldBytes > 0 || this.#interimCount > 0
  }

  /** The response was read to its end. */
  get isDone(): boolean {
    return this.#state === 'idle'
  }

  /** The response has no end but that of its connection. */
  get isWholeAtClose(): boolean {
    return this.#state === 'close'
  }

  get isUpgraded(): boolean {
    return this.#state === 'upgraded'
  }

  /** A chunk was relayed in part: what follows would be taken for the rest of it. */
  get isInsideRelayedChunk(): boolean {
    return this.#relaysChunks === true && (this.#state === 'chunk_data' || this.#state === 'chunk_end')
  }

  get #isOver(): boolean {
    return this.#state === 'idle' || this.#state === 'upgraded'
  }

  /** Returns how many bytes are behind the end. */
  #readAll(bytes: Buffer, from: number, to: number): number {
    let at = from
    this.#runStart = from
    while (at < to && !this.#isOver) {
      const next = this.#read(bytes, at, to)
      if (next === INCOMPLETE) break
      at = next
      this.#searched = 0
    }
    if (this.#isUndecided) return this.#decide(bytes, to)
    if (this.#isOver) {
      this.#letGo()
      return to - at
    }
    if (this.#relaysChunks) this.#relay(bytes, at)
    if (at === to) this.#letGo()
    else this.#hold(bytes, at, to)
    return 0
  }

  get #isUndecided(): boolean {
    return this.#relaysChunks === undefined && this.#hasChunks
  }

  /**
   * The first chunks that arrived together were checked, and are read again as their sink wants them. So nothing is
   * sent of a response whose first chunks are malformed.
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

  /** Adds to what is held, of a size line no more than its end. Returns how many bytes that were. */
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

  /** Takes one step from here on. Returns where the next begins, or INCOMPLETE. */
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

  /** Returns where the head ends, which is given. */
  #takeHead(head: ResponseHead, end: number): number {
    if (head.status === 101) this.#upgrade(head)
    else if (head.status < 200) {
      if (++this.#interimCount > MAX_INTERIM_RESPONSES) throw new InvalidResponse('it has more than 100 interim responses')
      this.#sink!.onInterim(head)
    } else this.#begin(head)
    this.#runStart = end
    return end
  }

  /** -1 where it is not there yet. */
  #findHeadEnd(bytes: Buffer, at: number, to: number): number {
    const end = part(bytes, 0, to).indexOf(HEAD_END, at + Math.max(0, this.#searched - HEAD_END.length + 1))
    if (end < 0) this.#searched = to - at
    return end
  }

  #upgrade(head: ResponseHead): void {
    if (!this.#isUpgradeAsked) throw new InvalidResponse('it switches protocols though nobody asked')
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
    // Of chunks that are relayed, this is a part; of the first, nobody knows yet.
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

  /** A size that is not complete, or has an extension. */
  #readOddSize(bytes: Buffer, at: number, to: number): number {
    const end = indexOf(bytes, LF, at + this.#searched, to)
    if (end - at > MAX_CHUNK_LINE_BYTES) throw new InvalidResponse('a chunk size is too long')
    if (end === to) {
      this.#searched = to - at
      return INCOMPLETE
    }
    // RFC 9112 7.1: extensions that nobody knows are ignored
    const [, size] = SIZE_LINE.exec(bytes.toString('latin1', at, end)) ?? []
    if (size === undefined) throw new InvalidResponse('a chunk has no valid size')
    return this.#beginChunk(bytes, at, end + 1, Number.parseInt(size, 16), false)
  }

  /** The size line reaches from `at` to `next`. */
  #beginChunk(bytes: Buffer, at: number, next: number, size: number, isBare: boolean): number {
    if (size === 0 && this.#isUndecided) return INCOMPLETE
    this.#remaining = size
    this.#state = size === 0 ? 'trailers' : 'chunk_data'
    if (size > 0) this.#hasChunks = true
    if (!this.#relaysChunks || (isBare && size > 0)) return next
    // The last chunk is not relayed, and no other spelling of a size than the plain one.
    this.#relay(bytes, at)
    if (size > 0) this.#sink!.onData(Buffer.from(`${size.toString(16)}\r\n`, 'latin1'))
    this.#runStart = next
    return next
  }

  /** Hands over the frames that were checked, up to this place. */
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

/** The next place of the byte, or `to`. Bytes from `to` on are old. */
function indexOf(bytes: Buffer, byte: number, from: number, to: number): number {
  for (let at = from; at < to; at++) if (bytes[at] === byte) return at
  return to
}

/** Refuses an incomplete head that cannot become HTTP at once, instead of waiting for the timeout. The first `searched` bytes were checked before. */
function refuseEarly(bytes: Buffer, at: number, to: number, searched: number): void {
  const start = bytes.toString('latin1', at, Math.min(to, at + 5))
  if (!'HTTP/'.startsWith(start)) throw new InvalidResponse('it does not begin with HTTP/')
  for (let lineEnd = indexOf(bytes, LF, at + searched, to); lineEnd < to; lineEnd = indexOf(bytes, LF, lineEnd + 1, to)) {
    if (lineEnd === at || bytes[lineEnd - 1] !== CR) throw new InvalidResponse('its lines end without CR')
  }
}
