import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import {
  type CallHead,
  type CallRefusal,
  encodedStatusMessage,
  isEncoded,
  isRefusal,
  methodOf,
  timeoutMsOf,
} from '../../../src/doors/grpc/call-head.ts'
import type { GrpcLimits } from '../../../src/doors/grpc/grpc-limits.ts'
import {
  BROKEN,
  CLOSING,
  EXPIRED,
  failed,
  type GrpcMethod,
  type GrpcReply,
  type StreamingCall,
  TOO_SLOW,
} from '../../../src/doors/grpc/grpc-method.ts'
import { bodyFailure, framed, NO_MEMORY, type PartialMessages, PREFIX_BYTES } from '../../../src/doors/grpc/message-framing.ts'
import { GrowingBuffer } from '../../../src/memory/growing-buffer.ts'

export interface NodeCallContext {
  readonly methods: ReadonlyMap<string, GrpcMethod>
  readonly limits: GrpcLimits
  /** For the message to arrive. */
  readonly requestTimeoutMs: number
  readonly partial: PartialMessages
  readonly onFailure: (error: unknown) => void
}

/** The longest wait of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** One call on `node:http2`. */
export class NodeGrpcCall implements StreamingCall {
  readonly traceparent: string
  readonly #stream: ServerHttp2Stream
  readonly #context: NodeCallContext
  readonly #deadlineMs: number
  readonly #isEncoded: boolean
  readonly #body = new GrowingBuffer()
  #deadlineTimer: NodeJS.Timeout | undefined
  #arrivalTimer: NodeJS.Timeout | undefined
  #onGone = (): void => {}
  #hasReplied = false
  /** While something waits to be sent: since when, and how much it was when we last looked. */
  #waitingMs = Number.POSITIVE_INFINITY
  #unsent = 0

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, context: NodeCallContext) {
    this.traceparent = textOf(headers['traceparent'])
    this.#stream = stream
    this.#context = context
    stream.on('error', () => {}) // its 'close' follows
    stream.on('close', () => this.#close())
    const head = headOf(headers)
    const timeoutMs = timeoutMsOf(head.timeout)
    const method = methodOf(context.methods, head, timeoutMs)
    this.#deadlineMs = performance.now() + timeoutMs
    this.#isEncoded = isEncoded(head.encoding)
    this.#arrivalTimer = setTimeout(() => this.#reply(TOO_SLOW), context.requestTimeoutMs)
    if (isRefusal(method)) this.#refuse(method)
    else if (timeoutMs === 0) this.#reply(EXPIRED)
    else this.#await(method, timeoutMs)
  }

  get isOver(): boolean {
    return this.#hasReplied || this.#stream.destroyed || this.#stream.closed || performance.now() >= this.#deadlineMs
  }

  send(message: Uint8Array): void {
    if (this.#hasReplied || this.#stream.destroyed) return
    if (this.#stream.writableLength > this.#context.limits.maxWaitingBytes)
      return void this.#stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM)
    this.#respond()
    this.#stream.write(framed(message))
  }

  end(status: number, statusMessage: string): void {
    this.#reply(failed(status, statusMessage))
  }

  /** How long the client has taken nothing of what waits for it. */
  stuckMs(nowMs: number): number {
    const { writableLength } = this.#stream
    const isWaiting = this.#hasReplied || writableLength > 0
    if (!isWaiting || writableLength < this.#unsent) this.#waitingMs = Number.POSITIVE_INFINITY
    this.#unsent = writableLength
    if (isWaiting) this.#waitingMs = Math.min(this.#waitingMs, nowMs)
    return isWaiting ? nowMs - this.#waitingMs : 0
  }

  cancel(): void {
    this.#stream.close(constants.NGHTTP2_CANCEL)
  }

  /** What would never end by itself ends now. */
  endStreaming(): void {
    if (this.#stream.headersSent) this.#reply(CLOSING)
  }

  /** A request that is not gRPC gets its response when it is complete. A call gets it at once: its client may send nothing more before. */
  #refuse({ httpStatus, reply }: CallRefusal): void {
    if (httpStatus === 200) return this.#reply(reply)
    this.#stream.resume()
    this.#stream.on('end', () => this.#reply(reply, httpStatus))
  }

  #await(method: GrpcMethod, timeoutMs: number): void {
    if (timeoutMs < MAX_TIMER_MS) this.#deadlineTimer = setTimeout(() => this.#reply(EXPIRED), timeoutMs)
    this.#stream.on('data', (chunk: Buffer) => this.#collect(chunk))
    this.#stream.on('end', () => this.#begin(method))
  }

  #collect(chunk: Buffer): void {
    if (this.#hasReplied) return
    const { limits, partial } = this.#context
    const room = Math.max(0, limits.maxMessageBytes + PREFIX_BYTES + 1 - this.#body.size)
    const piece = chunk.subarray(0, room)
    if (!partial.take(piece.length)) return this.#reply(NO_MEMORY)
    this.#body.add(piece)
    const failure = this.#failure(false)
    if (failure !== undefined) this.#reply(failure)
  }

  #begin(method: GrpcMethod): void {
    if (this.#hasReplied) return
    clearTimeout(this.#arrivalTimer)
    const failure = this.#failure(true)
    if (failure !== undefined) return this.#reply(failure)
    if (this.isOver) return this.#reply(EXPIRED)
    const message = this.#body.bytes.subarray(PREFIX_BYTES)
    try {
      this.#handle(method, message)
    } catch (error) {
      this.#fail(error)
    }
  }

  #handle(method: GrpcMethod, message: Buffer): void {
    if (method.isStreaming) {
      this.#respond()
      this.#onGone = method.handle(message, this)
      if (this.#stream.destroyed) this.#onGone()
      return
    }
    const answer = method.handle(message, this)
    if (answer instanceof Promise) void answer.then((later) => this.#reply(later)).catch((error: unknown) => this.#fail(error))
    else this.#reply(answer)
  }

  #fail(error: unknown): void {
    this.#context.onFailure(error)
    this.#reply(BROKEN)
  }

  #failure(isWhole: boolean): GrpcReply | undefined {
    const rules = { maxBytes: this.#context.limits.maxMessageBytes, isEncoded: this.#isEncoded }
    return bodyFailure(this.#body.bytes, 0, this.#body.size, isWhole, rules)
  }

  #respond(): void {
    if (this.#stream.headersSent) return
    this.#stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  }

  #reply(reply: GrpcReply, httpStatus = 200): void {
    const stream = this.#stream
    if (this.#hasReplied || stream.destroyed || stream.closed) return
    this.#hasReplied = true
    const trailers = trailersOf(reply)
    if (reply.message === undefined && !stream.headersSent) {
      stream.respond({ ':status': httpStatus, 'content-type': 'application/grpc', ...trailers }, { endStream: true })
    } else {
      stream.on('wantTrailers', () => {
        if (!stream.closed) stream.sendTrailers(trailers)
      })
      this.#respond()
      stream.end(reply.message && framed(reply.message))
    }
    if (!stream.readableEnded) setImmediate(() => this.#stopUpload())
  }

  /**
   * RFC 9113 8.1: the client need not send the rest. Never called from within a stream's event: while Node reads a socket, some versions
   * (22.23, 26.10) hold RST_STREAM back until all of it is read, and nghttp2 then drops a response that it has not sent yet.
   */
  #stopUpload(): void {
    if (!this.#stream.readableEnded) this.#stream.close(constants.NGHTTP2_NO_ERROR)
  }

  #close(): void {
    clearTimeout(this.#deadlineTimer)
    clearTimeout(this.#arrivalTimer)
    this.#context.partial.giveBack(this.#body.size)
    this.#onGone()
  }
}

function headOf(headers: IncomingHttpHeaders): CallHead {
  return {
    method: headers[':method'] ?? '',
    path: headers[':path'] ?? '',
    contentType: headers['content-type'] ?? '',
    timeout: textOf(headers['grpc-timeout']),
    encoding: textOf(headers['grpc-encoding']),
  }
}

function textOf(value: string | readonly string[] | undefined): string {
  return typeof value === 'string' ? value : (value?.join(', ') ?? '')
}

function trailersOf({ status, statusMessage }: GrpcReply): OutgoingHttpHeaders {
  return { 'grpc-status': String(status), ...(statusMessage !== '' && { 'grpc-message': encodedStatusMessage(statusMessage) }) }
}
