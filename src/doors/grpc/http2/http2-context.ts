import type { ListenerTimeouts } from '../../../listen/http-listener.ts'
import type { GrpcLimits } from '../grpc-limits.ts'
import type { GrpcMethod } from '../grpc-method.ts'
import { type MessageRules, PartialMessages } from '../message-framing.ts'
import { FrameWriter } from './frame-writer.ts'
import { RequestHead } from './request-head.ts'

/** State that all gRPC connections of a worker share. */
export class Http2Context {
  readonly methods: ReadonlyMap<string, GrpcMethod>
  readonly limits: GrpcLimits
  readonly timeouts: ListenerTimeouts
  /** Called when a method or our own code fails. */
  readonly onFailure: (error: unknown) => void
  readonly writer = new FrameWriter()
  readonly head = new RequestHead()
  readonly partial: PartialMessages
  readonly plainRules: MessageRules
  readonly encodedRules: MessageRules
  /** Whether a method needs the `traceparent` of its calls. */
  readonly isTraced: boolean
  /** Number of calls under way. */
  streams = 0
  /** Monotonic time at which the current turn of the event loop began, in milliseconds. */
  nowMs = performance.now()
  /** While draining, connections are asked to go as soon as they have made a call. */
  isDraining = false

  constructor(
    methods: ReadonlyMap<string, GrpcMethod>,
    limits: GrpcLimits,
    timeouts: ListenerTimeouts,
    onFailure: (error: unknown) => void,
  ) {
    this.methods = methods
    this.isTraced = [...methods.values()].some((method) => !method.isStreaming && method.isTraced === true)
    this.limits = limits
    this.timeouts = timeouts
    this.onFailure = onFailure
    this.partial = new PartialMessages(limits.maxPartialBytes)
    this.plainRules = { maxBytes: limits.maxMessageBytes, isEncoded: false }
    this.encodedRules = { maxBytes: limits.maxMessageBytes, isEncoded: true }
  }
}
