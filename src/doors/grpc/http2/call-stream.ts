import type { GrowingBuffer } from '../../../growing-buffer.ts'
import type { CallRefusal } from '../call-head.ts'
import type { GrpcCall, GrpcMethod } from '../grpc-method.ts'
import type { MessageRules } from '../message-frame.ts'
import type { WaitingOutput } from './waiting-output.ts'

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
