import { type GrpcMethod, type GrpcReply, OK, type StreamingCall } from '../../../src/doors/grpc/grpc-method.ts'

/** Methods that say what they were given. */
export const ECHO = '/test.Echo/Now'
export const ECHO_LATER = '/test.Echo/Later'
export const NEVER = '/test.Echo/Never'
export const WATCH = '/test.Echo/Watch'
export const FAIL = '/test.Echo/Fail'
export const THROW = '/test.Echo/Throw'
export const REJECT = '/test.Echo/Reject'
export const BREAK_STREAM = '/test.Echo/BreakStream'

export class EchoMethods {
  /** How often a method was called. */
  handled = 0
  /** Watchers that are there. */
  readonly watchers = new Set<StreamingCall>()
  /** Replies that a test gives by itself. */
  readonly waiting: {
    readonly message: string
    readonly isOver: () => boolean
    reply(reply: GrpcReply): void
    fail(error: Error): void
  }[] = []

  readonly methods: readonly GrpcMethod[] = [
    { path: ECHO, isStreaming: false, handle: (message) => this.#echo(message) },
    { path: ECHO_LATER, isStreaming: false, handle: async (message) => this.#echo(Buffer.from(message)) },
    {
      path: NEVER,
      isStreaming: false,
      handle: (message, call) => {
        this.handled++
        const text = Buffer.from(message).toString('latin1')
        return new Promise((resolve, reject) =>
          this.waiting.push({ message: text, isOver: () => call.isOver, reply: resolve, fail: reject }),
        )
      },
    },
    {
      path: WATCH,
      isStreaming: true,
      handle: (message, call) => {
        this.handled++
        this.watchers.add(call)
        call.send(Buffer.from(message))
        return () => void this.watchers.delete(call)
      },
    },
    {
      path: FAIL,
      isStreaming: false,
      handle: (message) => ({ status: 14, statusMessage: Buffer.from(message).toString('utf8'), message: undefined }),
    },
    { path: THROW, isStreaming: false, handle: broken },
    { path: REJECT, isStreaming: false, handle: async () => broken() },
    { path: BREAK_STREAM, isStreaming: true, handle: broken },
  ]

  #echo(message: Uint8Array): GrpcReply {
    this.handled++
    return { status: OK, statusMessage: '', message: Buffer.from(message) }
  }
}

function broken(): never {
  throw new Error('a bug')
}
