import type { IncomingMessage, ServerResponse } from 'node:http'
import { resetConnection } from '../../listen/secured-socket.ts'
import { byteText } from '../../memory/latin1-text.ts'
import type { RequestTrace } from '../../telemetry/tracing/request-trace.ts'
import {
  type Downstream,
  type DownstreamListener,
  type FieldLines,
  headerLines,
  headText,
  type Peer,
  type ReceivedHead,
  type UpgradedClient,
} from '../downstream.ts'
import type { ClientConnection, EarlyBytes } from './client-connection.ts'
import { dropRest, NodeBody } from './node-body.ts'

/** Bodies of up to this size are written as strings, which are sent in one write with the head before them. */
const MAX_TEXT_BYTES = 16 * 1024

export interface NodeDownstreamParts {
  readonly connection: ClientConnection
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** Bytes that the client has sent after a request for another protocol; undefined for any other request. */
  readonly early: EarlyBytes | undefined
  /** Whether every response that begins now is the last on its connection. */
  readonly isDraining: () => boolean
  /** How long a client may take nothing of its response; 0 means no limit. */
  readonly stallMs: number
}

/** The client of a request that came through `node:http`. */
export class NodeDownstream implements Downstream {
  readonly received: ReceivedHead
  readonly #req: IncomingMessage
  readonly #res: ServerResponse
  readonly #connection: ClientConnection
  readonly #early: EarlyBytes | undefined
  readonly #isDraining: () => boolean
  #body: NodeBody | undefined
  #hearsDrain = false
  #stallMs: number
  #stall: NodeJS.Timeout | undefined
  /** Number of bytes that the client had taken when the current wait began. */
  #takenBytes = 0
  trace: RequestTrace | undefined
  listener: DownstreamListener | undefined

  constructor({ connection, req, res, early, isDraining, stallMs }: NodeDownstreamParts) {
    this.received = receivedHead(req)
    this.#connection = connection
    this.#req = req
    this.#res = res
    this.#early = early
    this.#isDraining = isDraining
    this.#stallMs = stallMs
  }

  get peer(): Peer {
    return this.#connection.peer
  }

  get body(): NodeBody {
    this.#body ??= new NodeBody(this.#req, this.isGone)
    return this.#body
  }

  get canUpgrade(): boolean {
    return this.#early !== undefined
  }

  get isHeadSent(): boolean {
    return this.#res.headersSent
  }

  get hasEnded(): boolean {
    return this.#connection.hasEnded
  }

  get isGone(): boolean {
    return this.#connection.isGone
  }

  get writtenBytes(): number {
    return this.#req.socket.bytesWritten
  }

  get unsentBytes(): number {
    return this.#req.socket.writableLength
  }

  invite(): void {
    if (this.#takesInterim) this.#res.writeContinue()
  }

  interim(status: number, reason: string, fields: FieldLines): void {
    if (this.#takesInterim) this.#res.socket!.write(headText(status, reason, fields), 'latin1')
  }

  head(status: number, reason: string | undefined, { text }: FieldLines): void {
    const fields = headerLines(text)
    if (this.#isDraining()) this.closeWhenDone()
    if (reason === undefined) this.#res.writeHead(status, fields)
    else this.#res.writeHead(status, reason, fields)
  }

  relayChunks(): boolean {
    return false
  }

  write(bytes: Buffer | string): boolean {
    const copy = copyOf(bytes)
    const hasRoom = typeof copy === 'string' ? this.#res.write(copy, 'latin1') : this.#res.write(copy)
    if (!hasRoom) this.#awaitDrain()
    return hasRoom
  }

  end(last: Buffer | string | undefined, trailers: readonly string[]): void {
    if (trailers.length > 0) this.#res.addTrailers(pairs(trailers))
    const copy = copyOf(last ?? '')
    if (typeof copy === 'string') this.#res.end(copy, 'latin1')
    else this.#res.end(copy)
    this.watchEnd()
  }

  /** To be called when the whole response has been written. A client that never takes the rest of it is cut. */
  watchEnd(): void {
    if (this.unsentBytes > 0) this.#awaitDrain()
  }

  upgrade(status: number, reason: string, fields: FieldLines): UpgradedClient {
    const { socket } = this.#req
    this.#res.detachSocket(socket)
    socket.write(headText(status, reason, fields), 'latin1')
    return { socket, early: this.#early!.take() }
  }

  closeWhenDone(): void {
    this.#res.shouldKeepAlive = false
  }

  limitStall(ms: number): void {
    this.#stallMs = ms
  }

  dropBody(stallMs: number): void {
    dropRest(this.#req, this.#res, stallMs)
  }

  reset(): void {
    if (this.#res.socket === null) this.#res.destroy()
    else resetConnection(this.#res.socket)
  }

  /** HTTP/1.0 has no chunks, so a response that is cut short would look complete unless the connection is reset. */
  cut(): void {
    if (this.isHeadSent && this.received.version === '1.0') resetConnection(this.#req.socket)
    else this.#req.socket.destroy()
  }

  onClientEnded(): void {
    this.#tell('onClientEnded')
  }

  onClientGone(): void {
    this.#tell('onClientGone')
    this.#body?.onGone()
  }

  /** HTTP/1.0 has no interim responses, and the response of a client that is gone has no socket. */
  get #takesInterim(): boolean {
    return this.received.version === '1.1' && this.#res.socket !== null
  }

  #awaitDrain(): void {
    if (!this.#hearsDrain) {
      this.#hearsDrain = true
      this.#res.on('drain', () => this.#onDrain())
      this.#res.once('close', () => clearTimeout(this.#stall))
    }
    if (this.#stallMs > 0) this.#stall ??= this.#limitWait()
  }

  #limitWait(): NodeJS.Timeout {
    this.#takenBytes = this.writtenBytes - this.unsentBytes
    return setTimeout(() => this.#checkTaken(), this.#stallMs)
  }

  /** After the end of a response, 'drain' comes only when everything was taken. A slow client that has taken a part of it gets more time. */
  #checkTaken(): void {
    if (this.writtenBytes - this.unsentBytes === this.#takenBytes) this.cut()
    else this.#stall = this.#limitWait()
  }

  #onDrain(): void {
    clearTimeout(this.#stall)
    this.#stall = undefined
    this.#tell('onClientDrained')
  }

  #tell(callback: 'onClientDrained' | 'onClientEnded' | 'onClientGone'): void {
    const { listener } = this
    try {
      listener?.[callback]()
    } catch (error) {
      listener?.abandon(error)
    }
  }
}

export function receivedHead({ method, url, httpVersion, rawHeaders }: IncomingMessage): ReceivedHead {
  return { method: method!, target: url!, version: httpVersion, fields: rawHeaders }
}

/** Node keeps what it cannot send at once, so the caller's buffer is copied. */
function copyOf(bytes: Buffer | string): Buffer | string {
  return typeof bytes === 'string' || bytes.length <= MAX_TEXT_BYTES ? byteText(bytes) : Buffer.from(bytes)
}

function pairs(fields: readonly string[]): [string, string][] {
  const pairs: [string, string][] = []
  for (let i = 0; i < fields.length; i += 2) pairs.push([fields[i]!, fields[i + 1]!])
  return pairs
}
