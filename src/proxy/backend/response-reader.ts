import { hasBody, InvalidResponse, parseFields, parseHead, type ResponseHead } from './response-head.ts'

/** Whoever waits for a response. */
export interface ResponseSink {
  /** A 1xx response, which another follows. */
  onInterim(head: ResponseHead): void
  onHead(head: ResponseHead): void
  /** The bytes may be in a buffer that the next read overwrites: what is needed beyond the call is copied. */
  onData(chunk: Buffer): void
  /** Names and values of the trailers in turn. */
  onEnd(trailers: readonly string[]): void
}

/** As much as common servers send. */
const MAX_HEAD_BYTES = 64 * 1024
const MAX_CHUNK_LINE_BYTES = 4096
const MAX_INTERIM_RESPONSES = 100
const CR = 0x0d
const LF = 0x0a
const HEAD_END = Buffer.from('\r\n\r\n')
const LINE_END = Buffer.from('\r\n')
const EMPTY = Buffer.alloc(0)
const MIN_HELD_BYTES = 256
const NO_TRAILERS: readonly string[] = []

/**
 * Reads one response after the other from the bytes of a connection (RFC 9112). Strict: where two readers could disagree
 * about where a response ends, it throws.
 */
export class ResponseReader {
  #state: 'idle' | 'head' | 'length' | 'close' | 'chunk_size' | 'chunk_data' | 'chunk_end' | 'trailers' | 'upgraded' = 'idle'
  #method = ''
  #isUpgradeAsked = false
  #sink: ResponseSink | undefined
  #interimCount = 0
  /** Bytes of a head, a size or a trailer that is not complete yet: so many of a buffer that has room for more. */
  #held: Buffer = EMPTY
  #heldBytes = 0
  /** As many of them were searched for the end: none is copied or searched again for each that comes, or one byte a chunk would cost the square. */
  #searched = 0
  #remaining = 0

  begin(method: string, isUpgradeAsked: boolean, sink: ResponseSink): void {
    this.#state = 'head'
    this.#method = method
    this.#isUpgradeAsked = isUpgradeAsked
    this.#sink = sink
    this.#interimCount = 0
    this.#letGo()
  }

  /** Reads what it can. Returns the bytes behind the response's end: empty, unless the backend sends out of turn or was upgraded. */
  push(chunk: Buffer): Buffer {
    let isHeld = this.#heldBytes > 0
    let rest = isHeld ? this.#append(chunk) : chunk
    while (rest.length > 0 && this.#state !== 'idle' && this.#state !== 'upgraded') {
      const next = this.#read(rest)
      if (next === undefined) {
        if (!isHeld) this.#hold(rest)
        return EMPTY
      }
      // Whoever got a part of the buffer may keep it: nothing is written to it any more.
      if (isHeld) this.#letGo()
      isHeld = false
      this.#searched = 0
      rest = next
    }
    return rest
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

  #hold(bytes: Buffer): void {
    this.#held = Buffer.allocUnsafe(Math.max(MIN_HELD_BYTES, 2 * bytes.length))
    this.#heldBytes = bytes.copy(this.#held)
  }

  /** Returns all that is held then. */
  #append(chunk: Buffer): Buffer {
    const bytes = this.#heldBytes + chunk.length
    if (bytes > this.#held.length) {
      const larger = Buffer.allocUnsafe(2 * bytes)
      this.#held.copy(larger, 0, 0, this.#heldBytes)
      this.#held = larger
    }
    chunk.copy(this.#held, this.#heldBytes)
    this.#heldBytes = bytes
    return this.#held.subarray(0, bytes)
  }

  #letGo(): void {
    this.#held = EMPTY
    this.#heldBytes = 0
    this.#searched = 0
  }

  /** Where this ends what comes next; -1 where it is not there yet. */
  #find(end: Buffer, bytes: Buffer): number {
    const at = bytes.indexOf(end, Math.max(0, this.#searched - end.length + 1))
    if (at < 0) this.#searched = bytes.length
    return at
  }

  /** Takes one step and returns what is left, or undefined when that is too little to go on. */
  #read(bytes: Buffer): Buffer | undefined {
    switch (this.#state) {
      case 'head':
        return this.#readHead(bytes)
      case 'length':
      case 'chunk_data':
        return this.#readData(bytes)
      case 'close':
        this.#sink!.onData(bytes)
        return EMPTY
      case 'chunk_size':
        return this.#readChunkSize(bytes)
      case 'chunk_end':
        return this.#readChunkEnd(bytes)
      default:
        return this.#readTrailers(bytes)
    }
  }

  #readHead(bytes: Buffer): Buffer | undefined {
    const searched = this.#searched
    const end = this.#find(HEAD_END, bytes)
    if (end < 0 ? bytes.length > MAX_HEAD_BYTES : end > MAX_HEAD_BYTES) throw new InvalidResponse('its head is too large')
    if (end < 0) {
      refuseEarly(bytes, searched)
      return undefined
    }
    const text = bytes.toString('latin1', 0, end)
    const rest = bytes.subarray(end + HEAD_END.length)
    const head = parseHead(text)
    if (head.status === 101) this.#upgrade(head)
    else if (head.status < 200) {
      if (++this.#interimCount > MAX_INTERIM_RESPONSES) throw new InvalidResponse('it has more than 100 interim responses')
      this.#sink!.onInterim(head)
    } else this.#begin(head)
    return rest
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

  #readData(bytes: Buffer): Buffer {
    const taken = bytes.length <= this.#remaining ? bytes : bytes.subarray(0, this.#remaining)
    this.#remaining -= taken.length
    this.#sink!.onData(taken)
    if (this.#remaining === 0) {
      if (this.#state === 'chunk_data') this.#state = 'chunk_end'
      else this.#end(NO_TRAILERS)
    }
    return taken.length === bytes.length ? EMPTY : bytes.subarray(taken.length)
  }

  #readChunkSize(bytes: Buffer): Buffer | undefined {
    const end = this.#find(LINE_END, bytes)
    if (end < 0 ? bytes.length > MAX_CHUNK_LINE_BYTES : end > MAX_CHUNK_LINE_BYTES) throw new InvalidResponse('a chunk size is too long')
    if (end < 0) return undefined
    // RFC 9112 7.1: extensions that nobody knows are ignored
    const [, size] = /^([0-9a-fA-F]{1,12})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?$/.exec(bytes.toString('latin1', 0, end)) ?? []
    if (size === undefined) throw new InvalidResponse('a chunk has no valid size')
    this.#remaining = Number.parseInt(size, 16)
    this.#state = this.#remaining === 0 ? 'trailers' : 'chunk_data'
    return bytes.subarray(end + LINE_END.length)
  }

  #readChunkEnd(bytes: Buffer): Buffer | undefined {
    if (bytes[0] !== 0x0d || (bytes.length > 1 && bytes[1] !== 0x0a)) throw new InvalidResponse('a chunk is longer than its size')
    if (bytes.length < 2) return undefined
    this.#state = 'chunk_size'
    return bytes.subarray(2)
  }

  #readTrailers(bytes: Buffer): Buffer | undefined {
    const isEmpty = bytes.length >= 2 && bytes[0] === 0x0d && bytes[1] === 0x0a
    const end = isEmpty ? 0 : this.#find(HEAD_END, bytes)
    if (end < 0 ? bytes.length > MAX_HEAD_BYTES : end > MAX_HEAD_BYTES) throw new InvalidResponse('its trailers are too large')
    if (end < 0) return undefined
    this.#end(isEmpty ? NO_TRAILERS : parseFields(bytes.toString('latin1', 0, end), 0))
    return bytes.subarray(isEmpty ? 2 : end + HEAD_END.length)
  }

  #end(trailers: readonly string[]): void {
    this.#state = 'idle'
    this.#sink!.onEnd(trailers)
  }
}

/** Rubbish is told from a slow head at once, and not when the time is up. Line ends before `from` were looked at. */
function refuseEarly(bytes: Buffer, from: number): void {
  const start = bytes.toString('latin1', 0, Math.min(bytes.length, 5))
  if (!'HTTP/'.startsWith(start)) throw new InvalidResponse('it does not begin with HTTP/')
  for (let lineEnd = bytes.indexOf(LF, from); lineEnd >= 0; lineEnd = bytes.indexOf(LF, lineEnd + 1)) {
    if (bytes[lineEnd - 1] !== CR) throw new InvalidResponse('its lines end without CR')
  }
}
