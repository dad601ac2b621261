import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type SecureClientSessionOptions,
} from 'node:http2'
import { onTestFinished } from 'vitest'

/** What a client saw of a call. */
export interface CallResult {
  readonly httpStatus: number
  /** Undefined where the call was reset before it got one. */
  readonly status: number | undefined
  readonly statusMessage: string
  readonly messages: readonly string[]
  /** The HTTP/2 error that ended it; 0 for none. */
  readonly resetCode: number
}

export type Fields = Readonly<Record<string, string | string[]>>

/** Node's own HTTP/2 as a gRPC client, for as long as the test runs. */
export function grpcClient(port: number, tls?: SecureClientSessionOptions): ClientHttp2Session {
  const session = connect(`${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`, tls)
  session.on('error', () => {}) // its calls tell
  onTestFinished(() => session.destroy())
  return session
}

export function grpcFields(path: string, more: Fields = {}): Fields {
  return { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...more }
}

/** A call whose body is sent as it is, in as many pieces. */
export function call(session: ClientHttp2Session, fields: Fields, ...body: readonly Uint8Array[]): Promise<CallResult> {
  const stream = session.request({ ...fields }, { endStream: false })
  for (const piece of body) stream.write(piece)
  stream.end()
  return resultOf(stream)
}

export function resultOf(stream: ClientHttp2Stream): Promise<CallResult> {
  return new Promise((resolve) => {
    let head: IncomingHttpHeaders = {}
    let trailers: IncomingHttpHeaders = {}
    const chunks: Buffer[] = []
    stream.on('response', (headers) => {
      head = headers
    })
    stream.on('trailers', (headers) => {
      trailers = headers
    })
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.on('error', () => {}) // its 'close' follows
    stream.on('close', () => {
      const end = { ...head, ...trailers }
      const status = end['grpc-status']
      resolve({
        httpStatus: Number(head[':status'] ?? 0),
        status: status === undefined ? undefined : Number(status),
        statusMessage: decodeURIComponent(String(end['grpc-message'] ?? '')),
        messages: messagesIn(Buffer.concat(chunks)),
        resetCode: stream.rstCode ?? constants.NGHTTP2_NO_ERROR,
      })
    })
  })
}

/** A message behind its prefix, as calls carry it. */
export function prefixed(message: string | Uint8Array, flag = 0): Buffer {
  const bytes = Buffer.from(message)
  const prefix = Buffer.alloc(5)
  prefix[0] = flag
  prefix.writeUInt32BE(bytes.length, 1)
  return Buffer.concat([prefix, bytes])
}

/** Those that are whole. */
export function messagesIn(body: Buffer): string[] {
  const messages: string[] = []
  for (let at = 0; body.length - at >= 5; ) {
    const end = at + 5 + body.readUInt32BE(at + 1)
    if (end > body.length) break
    messages.push(body.toString('latin1', at + 5, end))
    at = end
  }
  return messages
}
