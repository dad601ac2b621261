import type { Socket } from 'node:net'
import type { GrowingBuffer } from '../../../memory/growing-buffer.ts'
import type { CallRefusal } from '../call-head.ts'
import type { GrpcCall, GrpcMethod } from '../grpc-method.ts'
import type { MessageRules } from '../message-framing.ts'
import { MAX_FRAME_BYTES } from './frame-reader.ts'
import type { FrameWriter } from './frame-writer.ts'

/** The stream of one call. */
export class CallStream implements GrpcCall {
  readonly id: number
  /** The method that is called, or a refusal that is sent when the request is complete. */
  readonly method: GrpcMethod | CallRefusal
  readonly rules: MessageRules
  /** -1 if the request does not state it. */
  readonly contentLength: number
  readonly bornMs: number
  readonly deadlineMs: number
  readonly traceparent: string
  /** How many bytes we may still send. */
  sendWindow: number
  /** Bytes received since our last WINDOW_UPDATE for this stream. */
  unacknowledged = 0
  bodyBytes = 0
  /** The part of the message that has arrived, unless it came in one frame. */
  body: GrowingBuffer | undefined
  /** The client has ended its side of the stream. */
  hasEnded = false
  hasResponded = false
  /** The end of the call has been sent or queued. */
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

/** Messages of a stream that the client's windows do not let through yet. */
export class WaitingOutput {
  readonly #messages: Buffer[] = []
  /** How much of the first message is sent. */
  #sentBytes = 0
  #bytes = 0
  /** When output last made progress. */
  sinceMs: number
  /** Trailers that end the stream after the last message. */
  trailers: Buffer | undefined

  constructor(nowMs: number) {
    this.sinceMs = nowMs
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Queues a message, which includes its prefix. */
  add(message: Buffer): void {
    this.#messages.push(message)
    this.#bytes += message.length
  }

  /** Writes as much as the window allows. Returns how much of it was used. */
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
