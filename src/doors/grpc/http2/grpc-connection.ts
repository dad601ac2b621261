import type { Socket } from 'node:net'
import { READ_BUFFER, shareReads } from '../../../listen/shared-reads.ts'
import { CallStreams, streamWindow } from './call-streams.ts'
import {
  ACK,
  COMPRESSION_ERROR,
  CONTINUATION,
  DATA,
  DEFAULT_WINDOW,
  END_HEADERS,
  END_STREAM,
  ENHANCE_YOUR_CALM,
  FLOW_CONTROL_ERROR,
  FRAME_SIZE_ERROR,
  GOAWAY,
  HAS_PRIORITY,
  HEADERS,
  MAX_STREAM_ID,
  NO_ERROR,
  PADDED,
  PING,
  PRIORITY,
  PROTOCOL_ERROR,
  PUSH_PROMISE,
  RST_STREAM,
  SETTINGS,
  STREAM_CLOSED,
  WINDOW_UPDATE,
} from './frame.ts'
import { FrameBudget } from './frame-budget.ts'
import { BAD_PREFACE, FrameReader } from './frame-reader.ts'
import { HeaderBlock } from './header-block.ts'
import { HpackDecoder } from './hpack-decoder.ts'
import type { Http2Context } from './http2-context.ts'
import { INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, MAX_HEADER_LIST_SIZE, PeerSettings } from './peer-settings.ts'

/** Of the whole connection. */
const CONNECTION_WINDOW = 4 * 1024 * 1024
/** While so much waits to be sent, nothing is read. */
const MAX_UNSENT_BYTES = 64 * 1024
/** A connection that is told to close has so long to do so. */
const LINGER_MS = 1000
/** So long a client may take to learn that it shall go. */
const LEAVE_MS = 1000
const LEAVE_PING = Buffer.from('edge-bye', 'latin1')

const HTTP1 = ' HTTP/1.'
const NOT_HTTP2 =
  'HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 51\r\n\r\nThis port serves gRPC: HTTP/2 with prior knowledge.'

/** `leaving`: the client was asked to go. `left`: calls that it begins from now on are refused. `ended`: nothing more is read. */
type State = 'serving' | 'leaving' | 'left' | 'ended'

/** One HTTP/2 connection that carries gRPC calls (RFC 9113). */
export class GrpcConnection {
  readonly #context: Http2Context
  readonly #socket: Socket
  readonly #reader = new FrameReader((type, flags, id, bytes, from, to) => this.#frame(type, flags, id, bytes, from, to))
  readonly #decoder = new HpackDecoder()
  readonly #settings = new PeerSettings()
  readonly #streams: CallStreams
  readonly #controls: FrameBudget
  readonly #resets: FrameBudget
  readonly #maxAgeMs: number
  readonly #bornMs: number
  #block: HeaderBlock | undefined
  /** What the client has sent since we last gave it leave for more. */
  #unacknowledged = 0
  #hasBegun = false
  #hasSettings = false
  #state: State = 'serving'
  #stateMs: number
  /** When a call was last under way. */
  #idleMs: number
  #handled = 0
  /** When the frame began that is here in part, or the last one of a block that is. */
  #partialMs = Number.POSITIVE_INFINITY
  /** Of a client that does not keep up: when that began, and how much it had yet to read when we last looked. */
  #stalledMs = Number.POSITIVE_INFINITY
  #unsent = 0
  readonly #onDrain = (): void => {
    this.#stalledMs = Number.POSITIVE_INFINITY
    this.#socket.resume()
  }

  constructor(context: Http2Context, socket: Socket, onGone: (connection: GrpcConnection) => void) {
    const { limits } = context
    const nowMs = performance.now()
    this.#context = context
    this.#socket = socket
    this.#bornMs = nowMs
    this.#stateMs = nowMs
    this.#idleMs = nowMs
    this.#maxAgeMs = limits.maxAgeMs * (1 + Math.random() / 10)
    this.#controls = new FrameBudget(limits.controlBurst, limits.controlsPerSecond, nowMs)
    this.#resets = new FrameBudget(limits.resetBurst, limits.resetsPerSecond, nowMs)
    this.#streams = new CallStreams(context, socket, this.#settings, this.#controls)
    shareReads(socket, (length) => this.#read(READ_BUFFER, length))
    // Where reads cannot be shared, they come this way.
    socket.on('data', (chunk: Buffer) => this.#read(chunk, chunk.length))
    socket.on('error', () => {}) // its 'close' follows
    socket.on('close', () => {
      this.#streams.close()
      onGone(this)
    })
    socket.setNoDelay(true)
  }

  /** Ends what has taken too long. */
  check(nowMs: number): void {
    const { keepAliveMs, headersTimeoutMs } = this.#context.timeouts
    this.#context.nowMs = nowMs
    if (this.#state === 'ended') {
      if (nowMs - this.#stateMs > LINGER_MS) this.#socket.destroy()
      return
    }
    if (!this.#hasSettings && nowMs - this.#bornMs > headersTimeoutMs) return void this.#socket.destroy()
    if (nowMs - this.#partialMs > headersTimeoutMs) return void this.#socket.destroy()
    if (this.#hasStalled(nowMs, keepAliveMs)) return void this.#socket.destroy()
    this.#streams.check(nowMs)
    if (this.#streams.size > 0) this.#idleMs = nowMs
    if (this.#state === 'serving') {
      if (this.#hasSettings && nowMs - this.#idleMs > keepAliveMs) this.#leaveAtOnce()
      else if (this.#context.isDraining || nowMs - this.#bornMs > this.#maxAgeMs) this.leave()
    } else if (this.#state === 'leaving' && nowMs - this.#stateMs > LEAVE_MS) this.#leaveAtOnce()
    this.#endIfLeft()
    this.#context.writer.flush()
  }

  /** Asks the client to go elsewhere; what it has sent meanwhile is still served. One that has just come makes a call first. */
  leave(): void {
    if (this.#state !== 'serving' || !(this.#streams.size > 0 || this.#streams.handled > 0)) return
    const { writer } = this.#context
    writer.goAway(this.#socket, MAX_STREAM_ID, NO_ERROR, '')
    // RFC 9113 6.8: when it comes back, the client has read the other one, too.
    writer.ping(this.#socket, LEAVE_PING, 0, false)
    writer.flush()
    this.#enter('leaving')
  }

  /** Serves the calls that are here, and closes. */
  close(): void {
    if (this.#state === 'ended') return
    this.#streams.endStreaming()
    this.#leaveAtOnce()
    this.#endIfLeft()
    this.#context.writer.flush()
  }

  closeIfIdle(): void {
    if (this.#hasSettings && this.#streams.size === 0 && this.#socket.writableLength === 0) this.#socket.destroy()
  }

  #leaveAtOnce(): void {
    if (this.#state === 'left' || this.#state === 'ended') return
    const { lastId } = this.#streams
    this.#begin()
    this.#context.writer.goAway(this.#socket, lastId, NO_ERROR, '')
    this.#streams.maxId = lastId
    this.#enter('left')
  }

  #endIfLeft(): void {
    if (this.#state === 'left' && this.#streams.size === 0) this.#end()
  }

  /** What the client still sends is read and dropped: closed with unread bytes, the system would reset it, and our last words be lost. */
  #end(): void {
    this.#context.writer.flush()
    this.#enter('ended')
    this.#socket.end()
  }

  #enter(state: State): void {
    this.#state = state
    this.#stateMs = performance.now()
  }

  #hasStalled(nowMs: number, maxMs: number): boolean {
    const unsent = this.#socket.writableLength
    if (unsent === 0 || unsent < this.#unsent) this.#stalledMs = Number.POSITIVE_INFINITY
    this.#unsent = unsent
    if (unsent > 0) this.#stalledMs = Math.min(this.#stalledMs, nowMs)
    return nowMs - this.#stalledMs > maxMs || unsent > this.#context.limits.maxWaitingBytes * 2
  }

  /** `chunk` may be shared: what is needed beyond this turn is copied. */
  #read(chunk: Buffer, length: number): void {
    if (this.#state === 'ended') return
    const context = this.#context
    context.nowMs = performance.now()
    const error = this.#reader.read(chunk, length)
    if (error === BAD_PREFACE) return this.#refuseProtocol(chunk.subarray(0, length))
    if (error !== NO_ERROR) return this.#fail(error, '')
    if (this.#reader.hasPreface) this.#begin()
    if (this.#streams.isFull) return this.#fail(ENHANCE_YOUR_CALM, 'too much waits for your windows')
    if (this.#streams.handled > this.#handled) {
      this.#handled = this.#streams.handled
      this.#idleMs = context.nowMs
    }
    const isPartial = this.#reader.isInFrame || this.#block !== undefined
    if (isPartial && this.#partialMs === Number.POSITIVE_INFINITY) this.#partialMs = context.nowMs
    this.#endIfLeft()
    context.writer.flush()
    if (this.#socket.writableLength > MAX_UNSENT_BYTES && !this.#socket.isPaused()) {
      this.#socket.pause()
      this.#socket.once('drain', this.#onDrain)
    }
  }

  #begin(): void {
    if (this.#hasBegun) return
    this.#hasBegun = true
    const { limits, writer } = this.#context
    writer.settings(this.#socket, [
      [MAX_CONCURRENT_STREAMS, limits.maxStreams],
      [INITIAL_WINDOW_SIZE, streamWindow(limits.maxMessageBytes)],
      [MAX_HEADER_LIST_SIZE, limits.maxHeaderBytes],
    ])
    writer.windowUpdate(this.#socket, 0, CONNECTION_WINDOW - DEFAULT_WINDOW)
  }

  #refuseProtocol(chunk: Buffer): void {
    if (!chunk.includes(HTTP1)) return this.#fail(PROTOCOL_ERROR, 'not HTTP/2')
    this.#socket.write(NOT_HTTP2, 'latin1')
    this.#end()
  }

  #fail(error: number, reason: string): void {
    this.#begin()
    this.#context.writer.goAway(this.#socket, this.#streams.lastId, error, reason)
    this.#end()
    this.#streams.close()
  }

  /** Returns the error that ends the connection, or NO_ERROR. */
  #frame(type: number, flags: number, id: number, bytes: Buffer, from: number, to: number): number {
    this.#partialMs = Number.POSITIVE_INFINITY
    if (!this.#hasSettings && (type !== SETTINGS || (flags & ACK) !== 0)) return PROTOCOL_ERROR
    if (this.#block !== undefined && type !== CONTINUATION) return PROTOCOL_ERROR
    switch (type) {
      case DATA:
        return this.#data(flags, id, bytes, from, to)
      case HEADERS:
        return this.#headers(flags, id, bytes, from, to)
      case PRIORITY:
        if (to - from !== 5) return FRAME_SIZE_ERROR
        return id === 0 || isOwnDependency(id, bytes, from) ? PROTOCOL_ERROR : this.#countControl()
      case RST_STREAM:
        return this.#reset(id, to - from)
      case SETTINGS:
        return this.#readSettings(flags, id, bytes, from, to)
      case PUSH_PROMISE:
        return PROTOCOL_ERROR
      case PING:
        return this.#ping(flags, id, bytes, from, to)
      case GOAWAY:
        if (id !== 0) return PROTOCOL_ERROR
        return to - from >= 8 ? this.#countControl() : FRAME_SIZE_ERROR
      case WINDOW_UPDATE:
        return this.#widen(id, bytes, from, to)
      case CONTINUATION:
        return this.#continue(flags, id, bytes, from, to)
      default:
        // RFC 9113 5.5: frames that we do not know mean nothing.
        return this.#countControl()
    }
  }

  #data(flags: number, id: number, bytes: Buffer, from: number, to: number): number {
    if (id === 0) return PROTOCOL_ERROR
    this.#unacknowledged += to - from
    if (this.#unacknowledged > CONNECTION_WINDOW) return FLOW_CONTROL_ERROR
    if (this.#unacknowledged >= CONNECTION_WINDOW / 2) {
      this.#context.writer.windowUpdate(this.#socket, 0, this.#unacknowledged)
      this.#unacknowledged = 0
    }
    const isEnd = (flags & END_STREAM) !== 0
    if ((flags & PADDED) === 0) return this.#streams.data(id, bytes, from, to, to - from, isEnd)
    const end = to - (bytes[from] ?? 0)
    return from + 1 > end || from === to ? PROTOCOL_ERROR : this.#streams.data(id, bytes, from + 1, end, to - from, isEnd)
  }

  #headers(flags: number, id: number, bytes: Buffer, from: number, to: number): number {
    if (id % 2 === 0) return PROTOCOL_ERROR
    let begin = from
    let end = to
    if ((flags & PADDED) !== 0) {
      if (begin === to) return PROTOCOL_ERROR
      end -= bytes[begin++]!
    }
    if ((flags & HAS_PRIORITY) !== 0) {
      if (begin + 5 > end || isOwnDependency(id, bytes, begin)) return PROTOCOL_ERROR
      begin += 5
    }
    if (begin > end) return PROTOCOL_ERROR
    const isEnd = (flags & END_STREAM) !== 0
    if ((flags & END_HEADERS) !== 0) return this.#head(id, isEnd, bytes, begin, end)
    this.#block = new HeaderBlock(id, isEnd, this.#context.limits.maxHeaderBytes)
    return this.#block.add(bytes.subarray(begin, end)) ? NO_ERROR : ENHANCE_YOUR_CALM
  }

  #continue(flags: number, id: number, bytes: Buffer, from: number, to: number): number {
    const block = this.#block
    if (block === undefined || block.streamId !== id) return PROTOCOL_ERROR
    if (!block.add(bytes.subarray(from, to))) return ENHANCE_YOUR_CALM
    if ((flags & END_HEADERS) === 0) return NO_ERROR
    this.#block = undefined
    return this.#head(id, block.isEnd, block.bytes, 0, block.bytes.length)
  }

  /** Every block is decoded, whatever becomes of it: the next one may depend on it. */
  #head(id: number, isEnd: boolean, bytes: Buffer, from: number, to: number): number {
    const { head } = this.#context
    const isTrailers = this.#streams.has(id)
    head.begin(isTrailers)
    if (!this.#decoder.decode(bytes, from, to, head)) return COMPRESSION_ERROR
    head.end()
    if (isTrailers) return this.#streams.trailers(id, head, isEnd)
    if (id > this.#streams.lastId) return this.#streams.begin(id, head, isEnd)
    return this.#streams.isCut(id) ? this.#countControl() : STREAM_CLOSED
  }

  #reset(id: number, length: number): number {
    if (id === 0 || this.#isIdle(id)) return PROTOCOL_ERROR
    if (length !== 4) return FRAME_SIZE_ERROR
    if (!this.#streams.reset(id)) return this.#countControl()
    // CVE-2023-44487: a call that is cancelled makes room for the next, though its work may go on.
    return this.#resets.take(this.#context.nowMs) ? NO_ERROR : ENHANCE_YOUR_CALM
  }

  #readSettings(flags: number, id: number, bytes: Buffer, from: number, to: number): number {
    if (id !== 0) return PROTOCOL_ERROR
    if ((flags & ACK) !== 0) return to === from ? this.#countControl() : FRAME_SIZE_ERROR
    const { initialWindow } = this.#settings
    const error = this.#settings.read(bytes, from, to)
    if (error !== NO_ERROR) return error
    this.#hasSettings = true
    this.#begin()
    this.#context.writer.settingsAck(this.#socket)
    const change = this.#settings.initialWindow - initialWindow
    const windowError = change === 0 ? NO_ERROR : this.#streams.changeWindows(change)
    return windowError === NO_ERROR ? this.#countControl() : windowError
  }

  #ping(flags: number, id: number, bytes: Buffer, from: number, to: number): number {
    if (id !== 0) return PROTOCOL_ERROR
    if (to - from !== 8) return FRAME_SIZE_ERROR
    if ((flags & ACK) === 0) this.#context.writer.ping(this.#socket, bytes, from, true)
    else if (this.#state === 'leaving' && LEAVE_PING.equals(bytes.subarray(from, to))) this.#leaveAtOnce()
    return this.#countControl()
  }

  #widen(id: number, bytes: Buffer, from: number, to: number): number {
    if (to - from !== 4) return FRAME_SIZE_ERROR
    if (this.#isIdle(id)) return PROTOCOL_ERROR
    const increment = bytes.readUInt32BE(from) % 2 ** 31
    if (id === 0 && increment === 0) return PROTOCOL_ERROR
    if (id === 0 && !this.#streams.widen(increment)) return FLOW_CONTROL_ERROR
    const error = id === 0 ? NO_ERROR : this.#streams.widenStream(id, increment)
    return error === NO_ERROR ? this.#countControl() : error
  }

  #isIdle(id: number): boolean {
    return id > this.#streams.lastId || (id !== 0 && id % 2 === 0)
  }

  #countControl(): number {
    return this.#controls.take(this.#context.nowMs) ? NO_ERROR : ENHANCE_YOUR_CALM
  }
}

/** RFC 7540 5.3.1: a stream cannot depend on itself. */
function isOwnDependency(id: number, bytes: Buffer, from: number): boolean {
  return bytes.readUInt32BE(from) % 2 ** 31 === id
}
