import type { Socket } from 'node:net'
import type { Backend, ConnectionSeeker } from './backend.ts'
import type { BackendConnection } from './backend-connection.ts'
import { BackendFailure } from './backend-failure.ts'
import type { ResponseHead } from './response-head.ts'
import type { ResponseSink } from './response-reader.ts'

export interface BackendRequest {
  readonly method: string
  /** The whole head, its blank line included. */
  readonly head: string
  /** None, all of it at hand, or still to come through `write`, framed by its length or as chunks. */
  readonly body: Buffer | undefined | 'by_length' | 'chunked'
  readonly isUpgrade: boolean
}

export interface BackendHandler extends ResponseSink {
  /** The head leaves with the first of the body, or with `sendHeadSoon`: a body that is still to come may be written. */
  onReady(): void
  onDrain(): void
  /** A body that was at hand has been written, and will not be written again. */
  onBodyWritten(): void
  onQuiet(): void
  onUpgraded(head: ResponseHead, socket: Socket, rest: Buffer): void
  /** All of the response was handed over, and nothing more comes: the call may be used again. */
  onDone(): void
  /** There will be no response, or no more of it. */
  onFailure(failure: BackendFailure): void
  /** Our own code failed while the response was read. */
  onBroken(error: unknown): void
  /** The first try failed in a way that allows a second. */
  onRetry(failure: BackendFailure): void
}

const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

/** A request to the backend, tried a second time where that can do no harm. One at a time, any number one after the other. */
export class BackendCall implements ConnectionSeeker {
  readonly #backend: Backend
  readonly #handler: BackendHandler
  #request!: BackendRequest
  #connection: BackendConnection | undefined
  #isRetry = false
  /** Everything was written that will be. */
  isSent = false
  /** The body that was at hand is not needed for this write any more. */
  #isWritten = false
  #head: ResponseHead | undefined

  constructor(backend: Backend, handler: BackendHandler) {
    this.#backend = backend
    this.#handler = handler
  }

  /** Waits for a connection, and writes the request to it. The handler may hear of it before this returns. */
  send(request: BackendRequest): void {
    this.#request = request
    this.#isRetry = false
    this.isSent = false
    this.#isWritten = false
    this.#head = undefined
    this.#backend.connect(this)
  }

  /** It needs a new connection: for an upgrade, and for a retry, because other idle ones may be stale as well. */
  get needsFresh(): boolean {
    return this.#request.isUpgrade || this.#isRetry
  }

  get isUpgrade(): boolean {
    return this.#request.isUpgrade
  }

  /** A chunk was relayed in part: what follows would be taken for the rest of it. */
  get isInsideRelayedChunk(): boolean {
    return this.#connection?.isInsideRelayedChunk ?? false
  }

  onGiven(connection: BackendConnection): void {
    this.#connection = connection
    if (connection.isConnecting) return
    try {
      this.#begin(connection)
    } catch (error) {
      this.onBroken(error)
    }
  }

  onNoRoom(detail: string): void {
    try {
      this.#handler.onFailure(new BackendFailure('backend_busy', detail))
    } catch (error) {
      this.onBroken(error)
    }
  }

  onConnected(): void {
    this.#begin(this.#connection!)
  }

  /** Writes a part of the body. The bytes are the caller's again when this returns. Returns false when it is time to wait for onDrain. */
  write(chunk: Buffer): boolean {
    const connection = this.#connection
    if (connection === undefined) return true
    const hasRoom = this.#request.body === 'chunked' ? connection.writeChunk(chunk) : connection.write(chunk)
    // If the backend takes nothing, the backend is slow; otherwise the client is.
    connection.limitSilence(hasRoom ? 0 : this.#backend.options.idleTimeoutMs)
    return hasRoom
  }

  /** Sends the head without waiting for a body that may take long. */
  sendHeadSoon(): void {
    this.#connection?.sendHeadSoon()
  }

  endBody(): void {
    if (this.#request.body === 'chunked') this.#connection?.writeLastChunk()
    this.#sent()
  }

  /** Nothing more for now. If that lasts longer than the backend may be silent, the call fails like a silent backend's. */
  pause(): void {
    this.#connection?.pause()
  }

  resume(): void {
    this.#connection?.resume()
  }

  /** Ends the call at once, and its connection with it. The handler hears nothing more. */
  abort(): void {
    if (this.#connection === undefined) this.#backend.cancel(this)
    else this.#backend.drop(this.#connection)
    this.#connection = undefined
  }

  onDrain(): void {
    if (this.isSent) this.#noteWritten()
    else this.#connection?.limitSilence(0)
    this.#handler.onDrain()
  }

  onInterim(head: ResponseHead): void {
    this.#handler.onInterim(head)
  }

  onHead(head: ResponseHead): void {
    this.#head = head
    // There is no second try from here on. But a backend may respond before it has taken the whole body.
    if (this.#isWritten) this.#dropBody()
    this.#handler.onHead(head)
  }

  relaysChunks(): boolean {
    return this.#handler.relaysChunks()
  }

  onData(bytes: Buffer): void {
    this.#handler.onData(bytes)
  }

  onEnd(trailers: readonly string[]): void {
    this.#handler.onEnd(trailers)
  }

  onQuiet(): void {
    this.#limitSilence()
    this.#handler.onQuiet()
  }

  onUpgraded(socket: Socket, rest: Buffer): void {
    this.#backend.becomeTunnel(this.#connection!, socket)
    this.#connection = undefined
    this.#handler.onUpgraded(this.#head!, socket, rest)
  }

  onDone(canBeUsedAgain: boolean): void {
    const connection = this.#connection
    if (connection === undefined) return
    this.#connection = undefined
    connection.keepAliveMs = this.#head!.keepAliveMs
    // After a response that came before the end of the request, the connection cannot be used again.
    const isTaken = this.isSent && !connection.hasUnsent
    if (canBeUsedAgain && this.#head!.keepsAlive && isTaken) this.#backend.giveBack(connection)
    else this.#backend.drop(connection)
    this.#handler.onDone()
  }

  onFailure(failure: BackendFailure): void {
    const canRetry = this.#canRetry(failure)
    this.abort()
    if (!canRetry) return this.#handler.onFailure(failure)
    this.#isRetry = true
    this.isSent = false
    this.#isWritten = false
    this.#handler.onRetry(failure)
    this.#backend.connect(this)
  }

  onBroken(error: unknown): void {
    this.abort()
    this.#handler.onBroken(error)
  }

  #begin(connection: BackendConnection): void {
    const { method, head, body, isUpgrade } = this.#request
    if (typeof body !== 'string') {
      const isWritten = connection.begin(method, isUpgrade, head, body)
      this.#sent()
      if (isWritten) this.#noteWritten()
      return
    }
    connection.beginHead(method, head)
    this.#handler.onReady()
  }

  #sent(): void {
    this.isSent = true
    this.#limitSilence()
  }

  #limitSilence(): void {
    if (!this.isSent) return
    const { headersTimeoutMs, idleTimeoutMs } = this.#backend.options
    this.#connection?.limitSilence(this.#head === undefined ? headersTimeoutMs : idleTimeoutMs)
  }

  #noteWritten(): void {
    this.#isWritten = true
    if (this.#connection !== undefined && !this.#isRepeatable(this.#connection)) this.#dropBody()
  }

  /** A response may begin long after its request was written, and last much longer. */
  #dropBody(): void {
    if (typeof this.#request.body !== 'object') return
    this.#request = { ...this.#request, body: undefined }
    this.#handler.onBodyWritten()
  }

  /** No byte was sent, or nothing of a response came on a connection that the backend may have closed long before. */
  #canRetry({ code }: BackendFailure): boolean {
    const connection = this.#connection
    if (connection === undefined || this.#isRetry) return false
    // A timeout leaves no time for a second try.
    if (connection.isConnecting) return code !== 'backend_timeout'
    return code === 'backend_reset' && !connection.hasResponseBegun && this.#isRepeatable(connection)
  }

  /** Whether it may be written a second time although it was written on this connection. */
  #isRepeatable({ served }: BackendConnection): boolean {
    const { method, body } = this.#request
    return this.#head === undefined && !this.#isRetry && served > 0 && IDEMPOTENT.has(method) && typeof body !== 'string'
  }
}
