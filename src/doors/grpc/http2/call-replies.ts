import type { Socket } from 'node:net'
import { failed, type GrpcMethod, type GrpcReply, type StreamingCall } from '../grpc-method.ts'
import { DEADLINE_EXCEEDED } from '../grpc-status.ts'
import { EMPTY_TABLE, RESPONSE_BLOCK, trailersBlock, trailersOnlyBlock } from './answer-blocks.ts'
import type { CallStream } from './call-stream.ts'
import { NO_ERROR } from './frame.ts'
import type { Http2Context } from './http2-context.ts'
import type { PeerSettings } from './peer-settings.ts'
import { SendWindows } from './send-windows.ts'

export const EXPIRED = failed(DEADLINE_EXCEEDED, 'the deadline has passed')

/** What the calls of one connection are answered. */
export class CallReplies {
  readonly windows: SendWindows
  readonly #context: Http2Context
  readonly #socket: Socket
  readonly #settings: PeerSettings
  readonly #onOver: (stream: CallStream) => void
  #hasEmptiedTable = false

  /** `onOver`: all of a stream is sent. */
  constructor(context: Http2Context, socket: Socket, settings: PeerSettings, onOver: (stream: CallStream) => void) {
    this.#context = context
    this.#socket = socket
    this.#settings = settings
    this.#onOver = onOver
    this.windows = new SendWindows(context, socket, (stream, trailers) => {
      this.#headers(stream.id, trailers, true)
      this.#finish(stream)
    })
  }

  /** Has the method answer, now or later. */
  handle(stream: CallStream, method: GrpcMethod, message: Buffer): void {
    if (method.isStreaming) {
      this.#headers(stream.id, RESPONSE_BLOCK, false)
      stream.hasResponded = true
      const onGone = method.handle(message, this.#streamingCall(stream))
      if (stream.isClosed) onGone()
      else stream.onGone = onGone
      return
    }
    const answer = method.handle(message, stream)
    if (answer instanceof Promise) void answer.then((later) => this.#replyLater(stream, later))
    else this.reply(stream, answer)
  }

  /** Once; what comes later goes nowhere. */
  reply(stream: CallStream, reply: GrpcReply): void {
    if (stream.isClosed || stream.hasReplied) return
    stream.hasReplied = true
    if (!stream.hasResponded) {
      if (reply.message === undefined) {
        this.refuse(stream.id, reply, 200)
        return this.#finish(stream)
      }
      this.#headers(stream.id, RESPONSE_BLOCK, false)
    }
    if (reply.message !== undefined) this.windows.send(stream, reply.message)
    if (stream.waiting !== undefined) stream.waiting.trailers = trailersBlock(reply)
    else {
      this.#headers(stream.id, trailersBlock(reply), true)
      this.#finish(stream)
    }
  }

  /** All in one. */
  refuse(id: number, reply: GrpcReply, httpStatus: number): void {
    this.#headers(id, trailersOnlyBlock(httpStatus, reply), true)
  }

  #streamingCall(stream: CallStream): StreamingCall {
    return {
      get isOver() {
        return stream.isOver
      },
      send: (message) => {
        if (stream.isClosed || stream.hasReplied) return
        this.windows.send(stream, message)
        this.#context.writer.flushSoon()
      },
      end: (status, statusMessage) => this.#replyLater(stream, failed(status, statusMessage)),
    }
  }

  #replyLater(stream: CallStream, reply: GrpcReply): void {
    this.reply(stream, stream.isPastDeadline(performance.now()) ? EXPIRED : reply)
    this.#context.writer.flushSoon()
  }

  #finish(stream: CallStream): void {
    // RFC 9113 8.1: the client need not send the rest.
    if (!stream.hasEnded) this.#context.writer.reset(this.#socket, stream.id, NO_ERROR)
    this.#onOver(stream)
  }

  #headers(id: number, block: Buffer, isEnd: boolean): void {
    const mustEmpty = this.#settings.hasSmallTable && !this.#hasEmptiedTable
    if (mustEmpty) this.#hasEmptiedTable = true
    this.#context.writer.headers(this.#socket, id, block, isEnd, mustEmpty ? EMPTY_TABLE : -1)
  }
}
