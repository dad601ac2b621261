import { createServer, type Http2Server, type IncomingHttpHeaders, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { PortOptions } from '../../listen/http-listener.ts'
import type { ListenTarget, PortAddress } from '../../listen/listen-address.ts'
import { listenOn } from '../../listen/listen-on.ts'
import type { ListenerServer } from '../../listen/listener-server.ts'
import type { GrpcMethod, GrpcReply, StreamingCall } from './grpc-method.ts'
import { failed, type UnaryMethod } from './grpc-method.ts'
import { INTERNAL, OK, UNIMPLEMENTED } from './grpc-status.ts'

const PREFIX_BYTES = 5
const HEADERS = { ':status': 200, 'content-type': 'application/grpc' }

/** gRPC calls that `node:http2` has read. */
export class NodeGrpcServer implements ListenerServer {
  readonly #server: Http2Server
  readonly #methods: ReadonlyMap<string, GrpcMethod>
  readonly #sessions = new Set<ServerHttp2Session>()

  constructor(methods: ReadonlyMap<string, GrpcMethod>, options: PortOptions) {
    this.#methods = methods
    this.#server = createServer()
    this.#server.on('session', (session) => {
      this.#sessions.add(session)
      session.on('close', () => this.#sessions.delete(session))
      session.on('error', () => {}) // its 'close' follows
    })
    this.#server.on('stream', (stream, headers) => this.#serve(stream, headers))
    this.#server.on('error', options.onAcceptError)
  }

  listen(target: ListenTarget): Promise<PortAddress | undefined> {
    return listenOn(this.#server, target)
  }

  drain(): void {
    for (const session of this.#sessions) if (!session.destroyed) session.goaway()
  }

  async close(graceMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const session of this.#sessions) session.close()
    const cut = setTimeout(() => {
      for (const session of this.#sessions) session.destroy()
    }, graceMs)
    await closed
    clearTimeout(cut)
  }

  #serve(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    stream.on('error', () => {}) // its 'close' follows
    const method = this.#methods.get(headers[':path'] ?? '')
    if (method === undefined) return reply(stream, failed(UNIMPLEMENTED, 'no such method'))
    const chunks: Buffer[] = []
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.on('end', () => {
      const body = Buffer.concat(chunks)
      if (body.length < PREFIX_BYTES || body.readUInt32BE(1) !== body.length - PREFIX_BYTES)
        return reply(stream, failed(INTERNAL, 'the message is cut short'))
      const message = body.subarray(PREFIX_BYTES)
      if (method.isStreaming) {
        const end = method.handle(message, streamingCall(stream))
        stream.on('close', end)
      } else this.#call(stream, method, message)
    })
  }

  #call(stream: ServerHttp2Stream, method: UnaryMethod, message: Buffer): void {
    const call = { isOver: false }
    stream.on('close', () => {
      call.isOver = true
    })
    const answer = method.handle(message, call)
    if (answer instanceof Promise) void answer.then((later) => reply(stream, later))
    else reply(stream, answer)
  }
}

function reply(stream: ServerHttp2Stream, { status, statusMessage, message }: GrpcReply): void {
  if (stream.destroyed) return
  const trailers = { 'grpc-status': String(status), ...(statusMessage !== '' && { 'grpc-message': encodeURIComponent(statusMessage) }) }
  if (message === undefined) {
    stream.respond({ ...HEADERS, ...trailers }, { endStream: true })
    return
  }
  stream.respond(HEADERS, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers(trailers))
  stream.end(framed(message))
}

function streamingCall(stream: ServerHttp2Stream): StreamingCall {
  stream.respond(HEADERS, { waitForTrailers: true })
  let trailers = { 'grpc-status': String(OK), 'grpc-message': '' }
  stream.on('wantTrailers', () => stream.sendTrailers(trailers))
  return {
    get isOver() {
      return stream.destroyed
    },
    send: (message) => void stream.write(framed(message)),
    end: (status, statusMessage) => {
      trailers = { 'grpc-status': String(status), 'grpc-message': encodeURIComponent(statusMessage) }
      stream.end()
    },
  }
}

/** Behind a byte that says "not compressed", and its length. */
function framed(message: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(PREFIX_BYTES + message.length)
  bytes[0] = 0
  bytes.writeUInt32BE(message.length, 1)
  bytes.set(message, PREFIX_BYTES)
  return bytes
}
