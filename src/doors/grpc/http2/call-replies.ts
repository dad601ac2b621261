import type { Socket } from 'node:net'
import { encodedStatusMessage } from '../call-head.ts'
import { BROKEN, EXPIRED, failed, type GrpcMethod, type GrpcReply, OK, type StreamingCall } from '../grpc-method.ts'
import type { CallStream } from './call-stream.ts'
import { NO_ERROR } from './frame-reader.ts'
import type { Http2Context } from './http2-context.ts'
import type { PeerSettings } from './peer-settings.ts'
import { SendWindows } from './send-windows.ts'

/** Sends the replies to the calls of one connection. */
export class CallReplies {
  readonly windows: SendWindows
  readonly #context: Http2Context
  readonly #socket: Socket
  readonly #settings: PeerSettings
  readonly #onOver: (stream: CallStream) => void
  #hasEmptiedTable = false

  /** `onOver` is called when a stream's reply is completely sent. */
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

  /** Calls the method, which may answer now or later. */
  handle(stream: CallStream, method: GrpcMethod, message: Buffer): void {
    try {
      this.#handle(stream, method, message)
    } catch (error) {
      this.#fail(stream, error)
    }
  }

  /** Sends the reply. Only the first reply to a call is sent; later ones are dropped. */
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

  /** Sends a reply without a message as a single HEADERS frame ("Trailers-Only"). */
  refuse(id: number, reply: GrpcReply, httpStatus: number): void {
    this.#headers(id, trailersOnlyBlock(httpStatus, reply), true)
  }

  #handle(stream: CallStream, method: GrpcMethod, message: Buffer): void {
    if (method.isStreaming) {
      this.#headers(stream.id, RESPONSE_BLOCK, false)
      stream.hasResponded = true
      const onGone = method.handle(message, this.#streamingCall(stream))
      if (stream.isClosed) onGone()
      else stream.onGone = onGone
      return
    }
    const answer = method.handle(message, stream)
    if (answer instanceof Promise)
      void answer.then((later) => this.#replyLater(stream, later)).catch((error: unknown) => this.#fail(stream, error))
    else this.reply(stream, answer)
  }

  #fail(stream: CallStream, error: unknown): void {
    this.#context.onFailure(error)
    this.#replyLater(stream, BROKEN)
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
    // RFC 9113 8.1: NO_ERROR asks the client not to send the rest of its request.
    if (!stream.hasEnded) this.#context.writer.reset(this.#socket, stream.id, NO_ERROR)
    this.#onOver(stream)
  }

  #headers(id: number, block: Buffer, isEnd: boolean): void {
    const mustEmpty = this.#settings.hasSmallTable && !this.#hasEmptiedTable
    if (mustEmpty) this.#hasEmptiedTable = true
    this.#context.writer.headers(this.#socket, id, block, isEnd, mustEmpty ? EMPTY_TABLE : -1)
  }
}

/** Indexes of names in the static table of RFC 7541. */
const STATUS_NAME = 8
const CONTENT_TYPE_NAME = 31
const STATUS_200 = Buffer.from([0x88])
const CONTENT_TYPE = field(CONTENT_TYPE_NAME, 'application/grpc')

/** A dynamic table size update to 0 (RFC 7541 6.3). We never use the client's dynamic table. */
const EMPTY_TABLE = 0x20

/** Header block in front of messages. Our blocks never use the dynamic table, so they can be shared by all connections. */
const RESPONSE_BLOCK = Buffer.concat([STATUS_200, CONTENT_TYPE])

const OK_BLOCK = field('grpc-status', String(OK))

/** Returns the trailers that follow the messages. */
function trailersBlock({ status, statusMessage }: GrpcReply): Buffer {
  if (status === OK && statusMessage === '') return OK_BLOCK
  const fields = [field('grpc-status', String(status))]
  if (statusMessage !== '') fields.push(field('grpc-message', encodedStatusMessage(statusMessage)))
  return Buffer.concat(fields)
}

/** Returns the one header block of a reply without a message. */
function trailersOnlyBlock(httpStatus: number, reply: GrpcReply): Buffer {
  return Buffer.concat([httpStatus === 200 ? STATUS_200 : field(STATUS_NAME, String(httpStatus)), CONTENT_TYPE, trailersBlock(reply)])
}

/** RFC 7541 6.2.2: encodes a field that is not added to the table. Its name is an index or a literal. */
function field(name: number | string, value: string): Buffer {
  const head = typeof name === 'number' ? integer(0, 4, name) : [0, ...integer(0, 7, name.length), ...Buffer.from(name, 'latin1')]
  return Buffer.from([...head, ...integer(0, 7, value.length), ...Buffer.from(value, 'latin1')])
}

function integer(first: number, prefixBits: number, value: number): number[] {
  const max = (1 << prefixBits) - 1
  if (value < max) return [first | value]
  const bytes = [first | max]
  let rest = value - max
  for (; rest >= 0x80; rest >>= 7) bytes.push((rest & 0x7f) | 0x80)
  bytes.push(rest)
  return bytes
}
