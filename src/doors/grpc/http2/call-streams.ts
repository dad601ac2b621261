import type { Socket } from 'node:net'
import { GrowingBuffer } from '../../../memory/growing-buffer.ts'
import { isEncoded, isRefusal, methodOf, timeoutMsOf } from '../call-head.ts'
import { CLOSING, EXPIRED, type GrpcReply, TOO_SLOW } from '../grpc-method.ts'
import { bodyFailure, NO_MEMORY, PREFIX_BYTES } from '../message-framing.ts'
import { CallReplies } from './call-replies.ts'
import { CallStream } from './call-stream.ts'
import { CANCEL, ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR, NO_ERROR, PROTOCOL_ERROR, REFUSED_STREAM, STREAM_CLOSED } from './frame-reader.ts'
import type { Http2Context } from './http2-context.ts'
import type { FrameBudgets, PeerSettings } from './peer-settings.ts'
import type { RequestHead } from './request-head.ts'
import { TOO_LARGE } from './send-windows.ts'

const NO_BYTES = Buffer.alloc(0)
/** How many streams we remember that we ended before the client did: frames for them may still arrive. */
const MAX_CUT = 1000
/** A frame that makes us visit all streams costs one control frame more for every 64 streams visited, which is about as much work. */
const VISITS_PER_CONTROL = 64

/**
 * The calls of one connection. Methods that process a frame return the error that ends the connection, or NO_ERROR. An error in one call
 * ends only that call.
 */
export class CallStreams {
  readonly #context: Http2Context
  readonly #socket: Socket
  readonly #settings: PeerSettings
  readonly #budgets: FrameBudgets
  readonly #streams = new OpenCallStreams()
  readonly #cut = new Set<number>()
  readonly #replies: CallReplies
  /** Highest stream id that the client has used. */
  lastId = 0
  /** Streams with higher ids are refused once a GOAWAY has announced this one as the last. */
  maxId = Number.POSITIVE_INFINITY
  /** Number of calls that were handed to a method. */
  handled = 0

  constructor(context: Http2Context, socket: Socket, settings: PeerSettings, budgets: FrameBudgets) {
    this.#context = context
    this.#socket = socket
    this.#settings = settings
    this.#budgets = budgets
    this.#replies = new CallReplies(context, socket, settings, (stream) => {
      if (!stream.hasEnded) this.#noteCut(stream.id)
      this.#forget(stream)
    })
  }

  /** Number of calls under way. */
  get size(): number {
    return this.#streams.size
  }

  has(id: number): boolean {
    return this.#streams.get(id) !== undefined
  }

  /** Whether we ended this stream ourselves, so that frames of the client may still arrive for it. */
  isCut(id: number): boolean {
    return this.#cut.has(id)
  }

  /** Begins a call when its header block is complete. */
  begin(id: number, head: RequestHead, isEnd: boolean): number {
    const { limits, methods, nowMs, plainRules, encodedRules } = this.#context
    this.lastId = id
    if (head.bytes > limits.maxHeaderBytes) return this.#reject(id, ENHANCE_YOUR_CALM, isEnd)
    if (head.isMalformed || (isEnd && head.contentLength > 0)) return this.#reject(id, PROTOCOL_ERROR, isEnd)
    if (!this.#hasRoom() || id > this.maxId) return this.#reject(id, REFUSED_STREAM, isEnd)
    const timeoutMs = timeoutMsOf(head.timeout)
    const method = methodOf(methods, head, timeoutMs)
    const rules = isEncoded(head.encoding) ? encodedRules : plainRules
    if (isRefusal(method)) {
      // A request that is not gRPC is answered when it is complete. A gRPC call is answered at once, because its client may be waiting for us.
      if (isEnd || method.httpStatus === 200) return this.#refuse(id, method.reply, method.httpStatus, isEnd)
    } else if (timeoutMs === 0) return this.#refuse(id, EXPIRED, 200, isEnd)
    else if (isEnd) return this.#refuse(id, bodyFailure(NO_BYTES, 0, 0, true, rules)!, 200, isEnd)
    const lifeMs = isRefusal(method) ? Number.POSITIVE_INFINITY : timeoutMs
    const { initialWindow } = this.#settings
    this.#context.streams++
    this.#streams.add(new CallStream(id, method, rules, head.contentLength, initialWindow, nowMs, lifeMs, head.traceparent))
    return NO_ERROR
  }

  /** `flowBytes` is how much of the flow-control window the frame uses, including its padding. */
  data(id: number, bytes: Buffer, from: number, to: number, flowBytes: number, isEnd: boolean): number {
    const stream = this.#streams.get(id)
    if (stream === undefined) return this.#dataOfNone(id, from === to, isEnd)
    if (stream.hasEnded) return this.#abort(stream, STREAM_CLOSED)
    const length = to - from
    if (!this.#widenReceive(stream, flowBytes, isEnd)) return this.#abort(stream, FLOW_CONTROL_ERROR)
    stream.bodyBytes += length
    const { contentLength, bodyBytes } = stream
    if (contentLength >= 0 && (bodyBytes > contentLength || (isEnd && bodyBytes < contentLength)))
      return this.#abort(stream, PROTOCOL_ERROR)
    if (isEnd && stream.body === undefined) return this.#endBody(stream, bytes, from, to)
    if (length > 0 && !stream.hasReplied && !isRefusal(stream.method) && !this.#collect(stream, bytes.subarray(from, to), isEnd))
      return NO_ERROR
    if (isEnd) return this.#endCollected(stream)
    return length === 0 ? this.#countControl() : NO_ERROR
  }

  /** Handles a second header block, which must end the stream. */
  trailers(id: number, head: RequestHead, isEnd: boolean): number {
    const stream = this.#streams.get(id)!
    if (stream.hasEnded) return this.#abort(stream, STREAM_CLOSED)
    if (!isEnd || head.isMalformed) return this.#abort(stream, PROTOCOL_ERROR)
    const { contentLength, bodyBytes } = stream
    if (contentLength >= 0 && bodyBytes < contentLength) return this.#abort(stream, PROTOCOL_ERROR)
    return this.#endCollected(stream)
  }

  /** Returns whether the call was still under way. */
  reset(id: number): boolean {
    this.#cut.delete(id)
    const stream = this.#streams.get(id)
    if (stream === undefined) return false
    this.#forget(stream)
    return true
  }

  /** Widens the connection's send window. */
  widen(bytes: number): number {
    const visited = this.#replies.windows.widen(bytes)
    return visited === TOO_LARGE ? FLOW_CONTROL_ERROR : this.#countControl(1 + visited / VISITS_PER_CONTROL)
  }

  widenStream(id: number, bytes: number): number {
    const stream = this.#streams.get(id)
    if (stream === undefined) return bytes === 0 ? this.#reject(id, PROTOCOL_ERROR, true) : this.#countControl()
    if (bytes === 0) return this.#abort(stream, PROTOCOL_ERROR)
    return this.#replies.windows.widenStream(stream, bytes) ? this.#countControl() : this.#abort(stream, FLOW_CONTROL_ERROR)
  }

  /** RFC 9113 6.9.2: a new initial window changes the windows of all streams. For a stream with queued output this costs as much as a WINDOW_UPDATE. */
  changeWindows(bytes: number): number {
    let cost = 1 + this.#streams.size / VISITS_PER_CONTROL
    for (const stream of this.#streams.all()) {
      if (stream.waiting !== undefined) cost++
      if (!this.#replies.windows.widenStream(stream, bytes)) return FLOW_CONTROL_ERROR
    }
    return this.#countControl(cost)
  }

  /** Bytes of replies that wait for the client's windows. */
  get waitingBytes(): number {
    return this.#replies.windows.waitingBytes
  }

  /** Whether more bytes wait than `maxWaitingBytes` allows. */
  get isFull(): boolean {
    return this.#replies.windows.isFull
  }

  /** Ends calls that are past their deadline, arrive too slowly or wait too long for the client's windows. */
  check(nowMs: number): void {
    const { requestTimeoutMs, keepAliveMs } = this.#context.timeouts
    for (const stream of this.#streams.all()) {
      if (stream.waiting !== undefined && nowMs - stream.waiting.sinceMs > keepAliveMs) this.#cancel(stream, CANCEL)
      else if (stream.isPastDeadline(nowMs)) this.#replies.reply(stream, EXPIRED)
      else if (!stream.hasEnded && nowMs - stream.bornMs > requestTimeoutMs) this.#replies.reply(stream, TOO_SLOW)
    }
  }

  /** Ends streaming calls, which would never end by themselves. */
  endStreaming(): void {
    for (const stream of this.#streams.all()) if (stream.hasResponded && !stream.hasReplied) this.#replies.reply(stream, CLOSING)
  }

  /** Must be called when the connection has closed. */
  close(): void {
    for (const stream of this.#streams.all()) this.#forget(stream)
  }

  #dataOfNone(id: number, isEmpty: boolean, isEnd: boolean): number {
    if (id > this.lastId || id % 2 === 0) return PROTOCOL_ERROR
    if (!this.#cut.has(id)) {
      this.#context.writer.reset(this.#socket, id, STREAM_CLOSED)
      return this.#countControl()
    }
    if (isEnd) this.#cut.delete(id)
    return isEmpty ? this.#countControl() : NO_ERROR
  }

  /** The window is larger than a message, so only calls with much padding ever need a WINDOW_UPDATE. */
  #widenReceive(stream: CallStream, flowBytes: number, isEnd: boolean): boolean {
    const window = streamWindow(this.#context.limits.maxMessageBytes)
    stream.unacknowledged += flowBytes
    if (stream.unacknowledged > window) return false
    if (isEnd || stream.unacknowledged < window / 2) return true
    this.#context.writer.windowUpdate(this.#socket, stream.id, stream.unacknowledged)
    stream.unacknowledged = 0
    return true
  }

  /** Returns false if the message was refused. */
  #collect(stream: CallStream, piece: Buffer, isEnd: boolean): boolean {
    if (isEnd) stream.hasEnded = true
    if (!this.#context.partial.take(piece.length)) {
      this.#replies.reply(stream, NO_MEMORY)
      return false
    }
    stream.body ??= new GrowingBuffer()
    stream.body.add(piece)
    const failure = isEnd ? undefined : bodyFailure(stream.body.bytes, 0, stream.body.size, false, stream.rules)
    if (failure === undefined) return true
    this.#replies.reply(stream, failure)
    return false
  }

  #endCollected(stream: CallStream): number {
    const bytes = stream.body?.bytes ?? NO_BYTES
    return this.#endBody(stream, bytes, 0, bytes.length)
  }

  #endBody(stream: CallStream, bytes: Buffer, from: number, to: number): number {
    stream.hasEnded = true
    if (stream.hasReplied) return NO_ERROR
    if (isRefusal(stream.method)) {
      this.#forget(stream)
      return this.#refuse(stream.id, stream.method.reply, stream.method.httpStatus, true)
    }
    const failure = bodyFailure(bytes, from, to - from, true, stream.rules)
    if (failure !== undefined) this.#replies.reply(stream, failure)
    else if (stream.isPastDeadline(this.#context.nowMs)) this.#replies.reply(stream, EXPIRED)
    else {
      this.handled++
      this.#budgets.controls.add(this.#context.limits.controlsPerCall)
      this.#replies.handle(stream, stream.method, bytes.subarray(from + PREFIX_BYTES, to))
    }
    return NO_ERROR
  }

  /** Resets a stream for an error of the client. It counts as a reset by the client, since the method may still be working (CVE-2025-8671). */
  #abort(stream: CallStream, error: number): number {
    this.#cancel(stream, error)
    return this.#budgets.resets.take(this.#context.nowMs) ? NO_ERROR : ENHANCE_YOUR_CALM
  }

  #cancel(stream: CallStream, error: number): void {
    this.#forget(stream)
    this.#context.writer.reset(this.#socket, stream.id, error)
    if (!stream.hasEnded) this.#noteCut(stream.id)
  }

  /** Answers a request without beginning a call. */
  #refuse(id: number, reply: GrpcReply, httpStatus: number, isEnd: boolean): number {
    this.#replies.refuse(id, reply, httpStatus)
    if (isEnd) return this.#countControl()
    return this.#reject(id, NO_ERROR, isEnd)
  }

  #reject(id: number, error: number, isEnd: boolean): number {
    this.#context.writer.reset(this.#socket, id, error)
    if (!isEnd) this.#noteCut(id)
    return this.#countControl()
  }

  #noteCut(id: number): void {
    this.#cut.add(id)
    if (this.#cut.size > MAX_CUT) for (const oldest of this.#cut) return void this.#cut.delete(oldest)
  }

  /** When a worker has too many calls, the connections with the most calls are refused new ones. */
  #hasRoom(): boolean {
    const { limits, streams } = this.#context
    return this.#streams.size < (streams < limits.maxWorkerStreams ? limits.maxStreams : limits.fairStreams)
  }

  #forget(stream: CallStream): void {
    if (!stream.isClosed) this.#context.streams--
    this.#streams.delete(stream)
    stream.isClosed = true
    this.#replies.windows.forget(stream)
    if (stream.body !== undefined) this.#context.partial.giveBack(stream.body.size)
    stream.onGone?.()
  }

  #countControl(cost = 1): number {
    return this.#budgets.controls.take(this.#context.nowMs, cost) ? NO_ERROR : ENHANCE_YOUR_CALM
  }
}

/** Larger than any message, so that a call without padding never waits for a WINDOW_UPDATE from us. */
export function streamWindow(maxMessageBytes: number): number {
  return maxMessageBytes + 64 * 1024
}

/** The streams under way, by id. Most calls are answered before the next one begins, so the newest stream is kept outside the map, where it costs no entry. */
class OpenCallStreams {
  #newest: CallStream | undefined
  readonly #others = new Map<number, CallStream>()

  get size(): number {
    return this.#others.size + (this.#newest === undefined ? 0 : 1)
  }

  get(id: number): CallStream | undefined {
    return this.#newest?.id === id ? this.#newest : this.#others.get(id)
  }

  add(stream: CallStream): void {
    this.#keepNewest()
    this.#newest = stream
  }

  delete(stream: CallStream): void {
    if (this.#newest === stream) this.#newest = undefined
    else this.#others.delete(stream.id)
  }

  /** Iterates over all streams, oldest first. Streams may be deleted during the iteration. */
  all(): Iterable<CallStream> {
    this.#keepNewest()
    return this.#others.values()
  }

  #keepNewest(): void {
    if (this.#newest !== undefined) this.#others.set(this.#newest.id, this.#newest)
    this.#newest = undefined
  }
}
