import type { Socket } from 'node:net'
import type { Backend, ConnectionSeeker } from './backend.ts'
import type { BackendConnection } from './backend-connection.ts'
import { BackendFailure } from './backend-failure.ts'
import type { ResponseHead } from './response-head.ts'
import type { ResponseSink } from './response-reader.ts'

export interface BackendRequest {
  readonly method: string
  /** The whole head, including its blank line. */
  readonly head: string
  /** The pieces of the whole body, undefined if there is none, or how a body that is still to come through `write` is framed. */
  readonly body: readonly Buffer[] | undefined | 'by_length' | 'chunked'
  readonly isUpgrade: boolean
  /** Whether another backend is tried if this one cannot be connected to, instead of the same one again. */
  readonly isRouted: boolean
}

export interface BackendHandler extends ResponseSink {
  /** A body that is still to come may be written now. The head is sent together with the first part of it, or by `sendHeadSoon`. */
  onReady(): void
  onDrain(): void
  /** The body that was passed with the request has been written and is not needed for a retry, so its memory may be released. */
  onBodyWritten(): void
  onQuiet(): void
  onUpgraded(head: ResponseHead, socket: Socket, rest: Buffer): void
  /** The whole response has been delivered and no callback follows, so the call may be reused. */
  onDone(): void
  /** The backend sends no response, or not the rest of it. */
  onFailure(failure: BackendFailure): void
  /** Our own code threw an error; the backend is not at fault. */
  onBroken(error: unknown): void
  /** The first attempt failed in a way that allows a retry, which follows. */
  onRetry(failure: BackendFailure): void
}

/** Takes the rest of a response that nobody wants. */
const NOBODY: BackendHandler = {
  onReady: ignore,
  onDrain: ignore,
  onBodyWritten: ignore,
  onInterim: ignore,
  onHead: ignore,
  relaysChunks: () => false,
  onData: ignore,
  onEnd: ignore,
  onQuiet: ignore,
  onUpgraded: ignore,
  onDone: ignore,
  onFailure: ignore,
  onBroken: ignore,
  onRetry: ignore,
}

function ignore(): void {
  // The call was given up.
}

const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

/** Sends a request to the backend, and retries it once if that is safe. A call carries one request at a time and can be reused. */
export class BackendCall implements ConnectionSeeker {
  #backend: Backend | undefined
  #handler: BackendHandler
  #request!: BackendRequest
  #connection: BackendConnection | undefined
  #isRetry = false
  /** The whole request has been written to the socket, which may still have some of it in its queue. */
  isSent = false
  /** The socket no longer needs the bytes of a body that was passed with the request. */
  #isWritten = false
  /** False once a call has failed before any byte of it was sent. */
  hasConnected = true
  #isHeld = false
  #head: ResponseHead | undefined

  constructor(handler: BackendHandler) {
    this.#handler = handler
  }

  /** Waits for a connection to this backend and writes the request to it. Callbacks may come before this returns. */
  send(backend: Backend, request: BackendRequest): void {
    this.#backend = backend
    this.#request = request
    this.hasConnected = true
    this.#isRetry = false
    this.isSent = false
    this.#isWritten = false
    this.#isHeld = false
    this.#head = undefined
    backend.connect(this)
  }

  /** An upgrade needs a new connection, and so does a retry, because other idle connections may be stale as well. */
  get needsFresh(): boolean {
    return this.#request.isUpgrade || this.#isRetry
  }

  get isUpgrade(): boolean {
    return this.#request.isUpgrade
  }

  /** Part of a chunk has been relayed, so the client would take anything written now for the rest of that chunk. */
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
    this.hasConnected = false
    try {
      this.#handler.onFailure(new BackendFailure('backend_busy', detail))
    } catch (error) {
      this.onBroken(error)
    }
  }

  onConnected(): void {
    this.#begin(this.#connection!)
  }

  /** Writes a part of the body. The caller may reuse the bytes when this returns. Returns false if the caller should wait for onDrain. */
  write(chunk: Buffer): boolean {
    const connection = this.#connection
    if (connection === undefined) return true
    const hasRoom = this.#request.body === 'chunked' ? connection.writeChunk(chunk) : connection.write(chunk)
    // While the socket's queue is full, we wait for the backend, so its silence is limited; otherwise we wait for the client.
    connection.limitSilence(hasRoom ? 0 : this.#backend!.options.idleTimeoutMs)
    return hasRoom
  }

  /** Sends the head without waiting for the body, which may take long. */
  sendHeadSoon(): void {
    this.#connection?.sendHeadSoon()
  }

  endBody(): void {
    if (this.#request.body === 'chunked') this.#connection?.writeLastChunk()
    this.#sent()
  }

  /** Stops reading the response. The limit on silence still applies: a longer pause fails the call with `backend_timeout`. */
  pause(): void {
    this.#connection?.pause()
  }

  /** Stops reading the response for a reason that is our own: the silence of the backend is not limited meanwhile. */
  hold(): void {
    this.#isHeld = true
    this.#connection?.pause()
    this.#connection?.limitSilence(0)
  }

  resume(): void {
    this.#connection?.resume()
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#limitSilence()
  }

  /** Ends the call at once and closes its connection. No callback follows. */
  abort(): void {
    if (this.#connection === undefined) this.#backend?.cancel(this)
    else this.#backend?.drop(this.#connection)
    this.#connection = undefined
  }

  /** Ends the call like `abort`, even in the middle of a response that is being read. The call cannot be used again. */
  discard(): void {
    this.abort()
    this.#handler = NOBODY
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
    // No retry is possible from here on. But a backend may respond before it has taken the whole body, which is then still needed.
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
    this.#backend!.becomeTunnel(this.#connection!, socket)
    this.#connection = undefined
    this.#handler.onUpgraded(this.#head!, socket, rest)
  }

  onDone(canBeUsedAgain: boolean): void {
    const connection = this.#connection
    if (connection === undefined) return
    this.#connection = undefined
    connection.keepAliveMs = this.#head!.keepAliveMs
    // If the response came before the whole request was sent, the connection cannot be reused.
    const isTaken = this.isSent && !connection.hasUnsent
    if (canBeUsedAgain && this.#head!.keepsAlive && isTaken) this.#backend!.giveBack(connection)
    else this.#backend!.drop(connection)
    this.#handler.onDone()
  }

  onFailure(failure: BackendFailure): void {
    const canRetry = this.#canRetry(failure)
    this.hasConnected = this.#connection?.isConnecting === false
    this.abort()
    if (!canRetry) return this.#handler.onFailure(failure)
    this.#isRetry = true
    this.hasConnected = true
    this.isSent = false
    this.#isWritten = false
    this.#handler.onRetry(failure)
    this.#backend!.connect(this)
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
    if (!this.isSent || this.#isHeld) return
    const { headersTimeoutMs, idleTimeoutMs } = this.#backend!.options
    this.#connection?.limitSilence(this.#head === undefined ? headersTimeoutMs : idleTimeoutMs)
  }

  #noteWritten(): void {
    this.#isWritten = true
    if (this.#connection !== undefined && !this.#isRepeatable(this.#connection)) this.#dropBody()
  }

  /** Releases the body as early as possible: the response may begin long after the request was written, and last much longer. */
  #dropBody(): void {
    if (typeof this.#request.body !== 'object') return
    this.#request = { ...this.#request, body: undefined }
    this.#handler.onBodyWritten()
  }

  /** A retry is safe if no byte was sent, or if an idempotent request got no response on a reused connection, which the backend may have closed long before. */
  #canRetry({ code }: BackendFailure): boolean {
    const connection = this.#connection
    if (connection === undefined || this.#isRetry) return false
    // After a connect timeout, no time is left for a retry.
    if (connection.isConnecting) return code !== 'backend_timeout' && !this.#request.isRouted
    return code === 'backend_reset' && !connection.hasResponseBegun && this.#isRepeatable(connection)
  }

  /** Whether the request may be sent again although it was already written to this connection. */
  #isRepeatable({ served }: BackendConnection): boolean {
    const { method, body } = this.#request
    return this.#head === undefined && !this.#isRetry && served > 0 && IDEMPOTENT.has(method) && typeof body !== 'string'
  }
}
