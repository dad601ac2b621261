import type { GrpcMethod, GrpcReply, StreamingCall } from '../../../src/doors/grpc/grpc-method.ts'
import { OK } from '../../../src/doors/grpc/grpc-status.ts'

/** Methods that say what they were given. */
export const ECHO = '/test.Echo/Now'
export const ECHO_LATER = '/test.Echo/Later'
export const NEVER = '/test.Echo/Never'
export const WATCH = '/test.Echo/Watch'
export const FAIL = '/test.Echo/Fail'

export class EchoMethods {
  /** How often a method was called. */
  handled = 0
  /** Watchers that are there. */
  readonly watchers = new Set<StreamingCall>()
  /** Replies that a test gives by itself. */
  readonly waiting: { readonly message: string; readonly isOver: () => boolean; reply(reply: GrpcReply): void }[] = []

  readonly methods: readonly GrpcMethod[] = [
    { path: ECHO, isStreaming: false, handle: (message) => this.#echo(message) },
    { path: ECHO_LATER, isStreaming: false, handle: async (message) => this.#echo(Buffer.from(message)) },
    {
      path: NEVER,
      isStreaming: false,
      handle: (message, call) => {
        this.handled++
        const text = Buffer.from(message).toString('latin1')
        return new Promise((resolve) => this.waiting.push({ message: text, isOver: () => call.isOver, reply: resolve }))
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
  ]

  #echo(message: Uint8Array): GrpcReply {
    this.handled++
    return { status: OK, statusMessage: '', message: Buffer.from(message) }
  }
}
