import type { Socket } from 'node:net'
import { resetConnection } from '../../listen/secured-socket.ts'
import { writeAll } from '../../memory/latin1-text.ts'
import type { RequestTrace } from '../../telemetry/tracing/request-trace.ts'
import { hasBody } from '../backend/response-head.ts'
import {
  type Downstream,
  type DownstreamListener,
  type FieldLines,
  headText,
  type Peer,
  type ReceivedHead,
  type UpgradedClient,
} from '../downstream.ts'
import type { WireBody } from './wire-body.ts'
import type { WireContext } from './wire-context.ts'

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'
const LAST_CHUNK = '0\r\n\r\n'
const NO_HEAD: ReceivedHead = { method: '', target: '', version: '1.1', fields: [], lines: '' }

interface WireDownstreamParts {
  readonly context: WireContext
  readonly peer: Peer
  readonly body: WireBody
  /** Called when the whole response has been written. */
  readonly onEnded: () => void
  /** Called when the rest of the body is to be discarded from now on. */
  readonly onDropped: () => void
}

/** The client of the request in progress on a connection. It is reused for the next request, which begins in a later turn than this one ends. */
export class WireDownstream implements Downstream {
  readonly #socket: Socket
  readonly #parts: WireDownstreamParts
  received = NO_HEAD
  readonly canUpgrade = false
  isHeadSent = false
  hasEnded = false
  isGone = false
  trace: RequestTrace | undefined
  listener: DownstreamListener | undefined
  /** The response has been written to its end. */
  isEnded = true
  /** The response is the last on its connection. */
  isLast = false
  /** A client that takes nothing for this long is cut; 0 means never. */
  stallMs = 0
  /** How long the rest of the body may be discarded before the response has been sent; 0 means no limit. */
  dropStallMs = 0
  /** The client takes no more for now; 'drain' follows. */
  isBlocked = false
  /** The head, until it is sent with the first write. */
  #head = ''
  #hasBody = false
  #isChunked = false
  #isRelayed = false

  constructor(socket: Socket, parts: WireDownstreamParts) {
    this.#socket = socket
    this.#parts = parts
  }

  /** Begins the next request. */
  begin(received: ReceivedHead): void {
    this.received = received
    this.isHeadSent = false
    this.isEnded = false
    this.isLast = false
    this.trace = undefined
    this.listener = undefined
    // A rejection waits for its client no longer than a response from the backend does.
    this.stallMs = this.#parts.context.stallMs
    this.dropStallMs = 0
    this.#isRelayed = false
  }

  get peer(): Peer {
    return this.#parts.peer
  }

  get body(): WireBody {
    return this.#parts.body
  }

  get writtenBytes(): number {
    return this.#socket.bytesWritten
  }

  get unsentBytes(): number {
    return this.#socket.writableLength
  }

  invite(): void {
    if (!this.isGone) this.#send(CONTINUE, '', '')
  }

  interim(status: number, reason: string, fields: FieldLines): void {
    if (!this.isGone) this.#send(headText(status, reason, fields), '', '')
  }

  head(status: number, reason: string | undefined, fields: FieldLines): void {
    const { finalHead, isDraining } = this.#parts.context
    if (isDraining) this.isLast = true
    this.#hasBody = hasBody(this.received.method, status)
    this.#head = finalHead.text(status, reason, fields, this.#hasBody, this.isLast)
    this.#isChunked = finalHead.isChunked
    this.isHeadSent = true
  }

  relayChunks(): boolean {
    this.#isRelayed = this.#isChunked
    return this.#isRelayed
  }

  write(bytes: Buffer | string): boolean {
    if (this.isGone || !this.#hasBody) return true
    if (bytes.length > 0 || this.#head !== '') this.#sendBody(bytes, '')
    return !this.isBlocked
  }

  end(last: Buffer | string | undefined, trailers: readonly string[]): void {
    if (this.isEnded) return
    this.isEnded = true
    if (!this.isGone) {
      const closing = this.#isChunked ? lastChunk(trailers) : ''
      if (this.#hasBody) this.#sendBody(last ?? '', closing)
      else this.#sendBody('', '')
    }
    this.#parts.onEnded()
  }

  upgrade(): UpgradedClient {
    throw new Error('requests that ask for another protocol are left to node:http')
  }

  closeWhenDone(): void {
    if (!this.isHeadSent) this.isLast = true
  }

  limitStall(ms: number): void {
    this.stallMs = ms
  }

  dropBody(stallMs: number): void {
    this.dropStallMs = stallMs
    this.#parts.onDropped()
  }

  reset(): void {
    resetConnection(this.#socket)
  }

  cut(): void {
    this.#socket.destroy()
  }

  onDrain(): void {
    if (!this.isBlocked) return
    this.isBlocked = false
    this.#tell('onClientDrained')
  }

  onClientEnded(): void {
    this.hasEnded = true
    this.#tell('onClientEnded')
  }

  onClientGone(): void {
    if (this.isGone) return
    this.isGone = true
    this.#tell('onClientGone')
    this.body.onGone()
  }

  #sendBody(bytes: Buffer | string, closing: string): void {
    const head = this.#head
    this.#head = ''
    if (!this.#isChunked || this.#isRelayed || bytes.length === 0) this.#send(head, bytes, closing)
    else this.#send(`${head}${bytes.length.toString(16)}\r\n`, bytes, `\r\n${closing}`)
  }

  #send(before: string, bytes: Buffer | string, after: string): void {
    if (before.length + bytes.length + after.length === 0) return
    const socket = this.#socket
    const hasRoom = writeAll(socket, before, bytes, after)
    // A socket reports a full buffer before it has tried to write; nearly always, the system has taken everything by now.
    if (!hasRoom && socket.writableLength > 0) this.isBlocked = true
    this.body.idleSinceMs = this.#parts.context.roughMs
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

function lastChunk(trailers: readonly string[]): string {
  if (trailers.length === 0) return LAST_CHUNK
  let text = '0\r\n'
  for (let i = 0; i < trailers.length; i += 2) text += `${trailers[i]}: ${trailers[i + 1]}\r\n`
  return `${text}\r\n`
}
