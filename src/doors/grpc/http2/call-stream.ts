import type { Socket } from 'node:net'
import type { GrowingBuffer } from '../../../memory/buffers.ts'
import type { CallRefusal, MessageRules } from '../call-head.ts'
import type { GrpcCall, GrpcMethod } from '../grpc-method.ts'
import { MAX_FRAME_BYTES } from './frame-reader.ts'
import type { FrameWriter } from './frame-writer.ts'

/** One call. */
export class CallStream implements GrpcCall {
  readonly id: number
  /** A refusal that waits until the request is whole. */
  readonly method: GrpcMethod | CallRefusal
  readonly rules: MessageRules
  /** -1 where it was not said. */
  readonly contentLength: number
  readonly bornMs: number
  readonly deadlineMs: number
  readonly traceparent: string
  /** What the client may still be sent. */
  sendWindow: number
  /** What it has sent since we last gave it leave for more. */
  unacknowledged = 0
  bodyBytes = 0
  /** The message, while it is here in part. */
  body: GrowingBuffer | undefined
  /** The client has sent all that it will. */
  hasEnded = false
  hasResponded = false
  /** The end of the call is sent, or waits to be. */
  hasReplied = false
  isClosed = false
  waiting: WaitingOutput | undefined
  onGone: (() => void) | undefined

  constructor(
    id: number,
    method: GrpcMethod | CallRefusal,
    rules: MessageRules,
    contentLength: number,
    sendWindow: number,
    nowMs: number,
    timeoutMs: number,
    traceparent: string,
  ) {
    this.id = id
    this.method = method
    this.rules = rules
    this.contentLength = contentLength
    this.sendWindow = sendWindow
    this.bornMs = nowMs
    this.deadlineMs = nowMs + timeoutMs
    this.traceparent = traceparent
  }

  get isOver(): boolean {
    return this.isClosed || this.hasReplied || (this.deadlineMs !== Number.POSITIVE_INFINITY && this.isPastDeadline(performance.now()))
  }

  isPastDeadline(nowMs: number): boolean {
    return nowMs >= this.deadlineMs
  }
}

/** What a stream has to send and the client's windows do not let through yet. */
export class WaitingOutput {
  readonly #messages: Buffer[] = []
  /** Of the first message, so much is sent. */
  #sentBytes = 0
  #bytes = 0
  /** Since it last got on. */
  sinceMs: number
  /** What ends the stream, once all is sent. */
  trailers: Buffer | undefined

  constructor(nowMs: number) {
    this.sinceMs = nowMs
  }

  get bytes(): number {
    return this.#bytes
  }

  /** With its prefix. */
  add(message: Buffer): void {
    this.#messages.push(message)
    this.#bytes += message.length
  }

  /** Returns how much of the window it used. */
  write(writer: FrameWriter, socket: Socket, streamId: number, window: number): number {
    let left = window
    while (this.#bytes > 0 && left > 0) {
      const message = this.#messages[0]!
      const from = this.#sentBytes
      const to = Math.min(message.length, from + left, from + MAX_FRAME_BYTES)
      writer.data(socket, streamId, message, from, to)
      left -= to - from
      this.#bytes -= to - from
      this.#sentBytes = to
      if (to < message.length) continue
      this.#messages.shift()
      this.#sentBytes = 0
    }
    return window - left
  }
}
