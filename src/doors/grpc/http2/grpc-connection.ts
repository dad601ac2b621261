import type { Socket } from 'node:net'
import { READ_BUFFER, shareReads } from '../../../listen/shared-reads.ts'
import { CallStreams } from './call-streams.ts'
import { BAD_PREFACE, ENHANCE_YOUR_CALM, FrameReader, MAX_STREAM_ID, NO_ERROR, PROTOCOL_ERROR } from './frame-reader.ts'
import type { Http2Context } from './http2-context.ts'
import { IncomingFrames } from './incoming-frames.ts'
import { FrameBudget, PeerSettings } from './peer-settings.ts'

/** Reading pauses while the socket has more than this to send. If memory is short, connections with more unsent bytes are cut. */
const MAX_UNSENT_BYTES = 64 * 1024
/** How long a client may keep the connection open after we have ended our side. */
const LINGER_MS = 1000
/** How long we wait for a client to confirm, by acknowledging a ping, that it has read our first GOAWAY. */
const LEAVE_MS = 1000
const LEAVE_PING = Buffer.from('edge-bye', 'latin1')

const TOO_MUCH_WAITS = 'too much data waits for flow control of the client'
const HTTP1 = ' HTTP/1.'
const NOT_HTTP2 =
  'HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 51\r\n\r\nThis port serves gRPC: HTTP/2 with prior knowledge.'

/** `leaving`: the client was asked to go. `left`: new calls are refused. `ended`: our side is closed, and whatever still arrives is dropped. */
type State = 'serving' | 'leaving' | 'left' | 'ended'

/** One HTTP/2 connection that carries gRPC calls (RFC 9113). */
export class GrpcConnection {
  readonly #context: Http2Context
  readonly #socket: Socket
  readonly #reader: FrameReader
  readonly #incoming: IncomingFrames
  readonly #streams: CallStreams
  readonly #maxAgeMs: number
  readonly #bornMs: number
  #state: State = 'serving'
  #stateMs: number
  /** When a call was last under way. */
  #idleMs: number
  #handled = 0
  /** Time of the first read since the last complete frame that left a frame or header block incomplete. */
  #partialMs = Number.POSITIVE_INFINITY
  /** Since when a slow client has read nothing, and how many bytes were unsent at the last check. */
  #stalledMs = Number.POSITIVE_INFINITY
  #unsent = 0
  readonly #onDrain = (): void => {
    this.#stalledMs = Number.POSITIVE_INFINITY
    this.#socket.resume()
  }

  constructor(context: Http2Context, socket: Socket, onGone: () => void) {
    const { limits } = context
    const nowMs = performance.now()
    this.#context = context
    this.#socket = socket
    this.#bornMs = nowMs
    this.#stateMs = nowMs
    this.#idleMs = nowMs
    this.#maxAgeMs = limits.maxAgeMs * (1 + Math.random() / 10)
    const budgets = {
      controls: new FrameBudget(limits.controlBurst, limits.controlsPerSecond, nowMs),
      resets: new FrameBudget(limits.resetBurst, limits.resetsPerSecond, nowMs),
    }
    const settings = new PeerSettings()
    this.#streams = new CallStreams(context, socket, settings, budgets)
    this.#incoming = new IncomingFrames(context, socket, { streams: this.#streams, settings, budgets }, (payload) => {
      if (this.#state === 'leaving' && LEAVE_PING.equals(payload)) this.#leaveAtOnce()
    })
    this.#reader = new FrameReader((type, flags, id, bytes, from, to) => {
      this.#partialMs = Number.POSITIVE_INFINITY
      return this.#incoming.take(type, flags, id, bytes, from, to)
    })
    shareReads(socket, (length) => this.#tryRead(READ_BUFFER, length))
    // This event is used only if the socket's reads cannot be shared.
    socket.on('data', (chunk: Buffer) => this.#tryRead(chunk, chunk.length))
    socket.on('error', () => {}) // 'close' follows
    socket.on('close', () => {
      this.#close()
      onGone()
    })
    socket.setNoDelay(true)
  }

  /** Ends whatever has taken too long. */
  check(nowMs: number): void {
    try {
      this.#check(nowMs)
    } catch (error) {
      this.#break(error)
    }
  }

  /** Asks the client to go, and still serves calls that it sends meanwhile. A connection without a call so far is left alone until it has made one. */
  leave(): void {
    if (this.#state === 'serving' && (this.#streams.size > 0 || this.#streams.handled > 0)) this.#askToLeave()
  }

  /** Serves the calls under way, refuses new ones, and then closes. */
  close(): void {
    if (this.#state === 'ended') return
    this.#streams.endStreaming()
    this.#leaveAtOnce()
    this.#endIfLeft()
    this.#context.writer.flush()
  }

  /** Bytes that wait to be sent, in the socket or for the client's windows. */
  get unsentBytes(): number {
    return this.#socket.writableLength + this.#streams.waitingBytes
  }

  /** Cuts a connection that is far behind, to free memory. */
  cutIfBehind(): void {
    if (this.unsentBytes > MAX_UNSENT_BYTES) this.#socket.destroy()
  }

  /** Whether a call is under way, or part of what was sent for one. */
  get isServing(): boolean {
    return this.#streams.size > 0 || this.unsentBytes > 0
  }

  closeIfIdle(): void {
    if (this.#incoming.hasSettings && this.#streams.size === 0 && this.#socket.writableLength === 0) this.#socket.destroy()
  }

  #check(nowMs: number): void {
    const { keepAliveMs, headersTimeoutMs } = this.#context.timeouts
    this.#context.nowMs = nowMs
    if (this.#state === 'ended') {
      if (nowMs - this.#stateMs > LINGER_MS) this.#socket.destroy()
      return
    }
    if (!this.#incoming.hasSettings && nowMs - this.#bornMs > headersTimeoutMs) return void this.#socket.destroy()
    if (nowMs - this.#partialMs > headersTimeoutMs) return void this.#socket.destroy()
    if (this.#hasStalled(nowMs, keepAliveMs)) return void this.#socket.destroy()
    this.#streams.check(nowMs)
    if (this.#streams.isFull) return this.#fail(ENHANCE_YOUR_CALM, TOO_MUCH_WAITS)
    if (this.#streams.size > 0) this.#idleMs = nowMs
    if (this.#state === 'serving') {
      if (this.#incoming.hasSettings && nowMs - this.#idleMs > keepAliveMs) this.#askToLeave()
      else if (this.#context.isDraining || nowMs - this.#bornMs > this.#maxAgeMs) this.leave()
    } else if (this.#state === 'leaving' && nowMs - this.#stateMs > LEAVE_MS) this.#leaveAtOnce()
    this.#endIfLeft()
    this.#context.writer.flush()
  }

  #askToLeave(): void {
    const { writer } = this.#context
    writer.goAway(this.#socket, MAX_STREAM_ID, NO_ERROR, '')
    // RFC 9113 6.8: when the ping is acknowledged, the client has read the GOAWAY before it.
    writer.ping(this.#socket, LEAVE_PING, 0, false)
    writer.flush()
    this.#enter('leaving')
  }

  #leaveAtOnce(): void {
    if (this.#state === 'left' || this.#state === 'ended') return
    const { lastId } = this.#streams
    this.#incoming.begin()
    this.#context.writer.goAway(this.#socket, lastId, NO_ERROR, '')
    this.#streams.maxId = lastId
    this.#enter('left')
  }

  #endIfLeft(): void {
    if (this.#state === 'left' && this.#streams.size === 0) this.#end()
  }

  /** Keeps reading, and drops what arrives: if we closed with unread bytes, the kernel would send RST, and our last frames could be lost. */
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

  #tryRead(chunk: Buffer, length: number): void {
    try {
      this.#read(chunk, length)
    } catch (error) {
      this.#break(error)
    }
  }

  /** `chunk` may be the shared read buffer, so whatever is needed beyond this turn must be copied. */
  #read(chunk: Buffer, length: number): void {
    if (this.#state === 'ended') return
    const context = this.#context
    context.nowMs = performance.now()
    const error = this.#reader.read(chunk, length)
    if (error === BAD_PREFACE) return this.#refuseProtocol(chunk.subarray(0, length))
    if (error !== NO_ERROR) return this.#fail(error, '')
    if (this.#reader.hasPreface) this.#incoming.begin()
    if (this.#streams.isFull) return this.#fail(ENHANCE_YOUR_CALM, TOO_MUCH_WAITS)
    if (this.#streams.handled > this.#handled) {
      this.#handled = this.#streams.handled
      this.#idleMs = context.nowMs
    }
    const isPartial = this.#reader.isInFrame || this.#incoming.isInBlock
    if (isPartial && this.#partialMs === Number.POSITIVE_INFINITY) this.#partialMs = context.nowMs
    this.#endIfLeft()
    context.writer.flush()
    if (this.#socket.writableLength > MAX_UNSENT_BYTES && !this.#socket.isPaused()) {
      this.#socket.pause()
      this.#socket.once('drain', this.#onDrain)
    }
  }

  #refuseProtocol(chunk: Buffer): void {
    if (!chunk.includes(HTTP1)) return this.#fail(PROTOCOL_ERROR, 'not HTTP/2')
    this.#socket.write(NOT_HTTP2, 'latin1')
    this.#end()
  }

  /** Handles a failure of our own code, which must not affect other connections. */
  #break(error: unknown): void {
    this.#context.onFailure(error)
    this.#socket.destroy()
  }

  #fail(error: number, reason: string): void {
    this.#incoming.begin()
    this.#context.writer.goAway(this.#socket, this.#streams.lastId, error, reason)
    this.#end()
    this.#close()
  }

  #close(): void {
    this.#streams.close()
    this.#incoming.close()
  }
}
