import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { writeAll } from '../../memory/latin1-text.ts'
import { newReadBuffer, releaseRead } from '../../memory/read-buffers.ts'
import { BackendFailure, connectFailure, exchangeFailure, RefusedWrites } from './backend-failure.ts'
import { InvalidResponse } from './response-head.ts'
import { ResponseReader, type ResponseSink } from './response-reader.ts'
import { type SilenceSweep, SilenceWatch } from './silence-sweep.ts'

/** Callbacks to the call that uses a connection. Calls import connections; this type keeps connections from importing calls. */
export interface ConnectionUser extends ResponseSink {
  /** The whole request has been written. */
  readonly isSent: boolean
  /** The connection is established, and the request may be written. */
  onConnected(): void
  /** All bytes written so far have been sent. */
  onDrain(): void
  /** Everything that has arrived was delivered, and the response is not complete yet. */
  onQuiet(): void
  /** A 101 response has arrived: from now on the socket belongs to the user. `rest` holds the bytes after the head. */
  onUpgraded(socket: Socket, rest: Buffer): void
  onFailure(failure: BackendFailure): void
  /** Our own code threw an error; the backend is not at fault. */
  onBroken(error: unknown): void
  /** The whole response has been delivered. */
  onDone(canBeUsedAgain: boolean): void
}

/** Settings and helpers that all connections to a backend share. */
export interface BackendConnectionParts {
  readonly url: URL
  readonly lookup: LookupFunction | undefined
  readonly connectTimeoutMs: number
  readonly sweep: SilenceSweep
  /** An idle connection has been closed, by us or by the backend. */
  onIdleClosed(connection: BackendConnection): void
}

type State = 'connecting' | 'busy' | 'idle' | 'closed'

/** A connection to the backend. It carries one request at a time and can be reused. */
export class BackendConnection {
  readonly #parts: BackendConnectionParts
  readonly #socket: Socket
  readonly #silence: SilenceWatch
  readonly #refusedWrites: RefusedWrites
  readonly #reader = new ResponseReader()
  #user: ConnectionUser | undefined
  #state: State = 'connecting'
  #isPaused = false
  /** Head of a request whose body is still to come. It is sent together with the first part of the body. */
  #waitingHead = ''
  /** Number of requests that the connection carried before the current one. */
  served = 0
  /** How long the backend keeps an idle connection open, as its Keep-Alive field says. */
  keepAliveMs: number | undefined
  readonly #listeners = {
    error: (error: Error) => this.#fail(this.#state === 'connecting' ? connectFailure(error) : exchangeFailure(error)),
    data: (chunk: Buffer) => this.#read(chunk, chunk.length),
    end: () => this.#finish(),
    drain: () => this.#drain(),
    close: () => this.#fail(new BackendFailure('backend_reset', 'the connection was closed')),
  }

  /** `isForUpgrade`: the socket may become a tunnel, which cannot use the shared read buffer. */
  constructor(parts: BackendConnectionParts, user: ConnectionUser, isForUpgrade: boolean) {
    const { url, lookup, connectTimeoutMs, sweep } = parts
    this.#parts = parts
    this.#user = user
    this.#socket = openSocket(url, lookup, isForUpgrade ? undefined : (bytes, length) => this.#read(bytes, length))
    this.#socket.setNoDelay(true)
    this.#silence = new SilenceWatch(sweep, this.#socket, connectTimeoutMs)
    this.#refusedWrites = new RefusedWrites(this.#socket)
    this.#socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => this.#connected())
    for (const [event, listener] of Object.entries(this.#listeners)) this.#socket.on(event, listener)
  }

  /** The connection is not established yet, so no byte of the request has been sent. */
  get isConnecting(): boolean {
    return this.#state === 'connecting'
  }

  get hasResponseBegun(): boolean {
    return this.#reader.hasBegun
  }

  /** Some of the written bytes are still in our memory, because the backend takes no more for now. */
  get hasUnsent(): boolean {
    return this.#socket.writableLength > 0
  }

  /** Part of a chunk has been relayed, so the client would take anything written now for the rest of that chunk. */
  get isInsideRelayedChunk(): boolean {
    return this.#reader.isInsideRelayedChunk
  }

  /** Assigns an idle connection to a user, who may write at once. */
  use(user: ConnectionUser): void {
    this.#user = user
    this.#state = 'busy'
    this.served++
    this.#silence.limit(0)
  }

  /** Writes the head and the pieces of a body. Returns false if the body's bytes must not change before onDrain. */
  begin(method: string, isUpgradeAsked: boolean, head: string, body: readonly Buffer[] | undefined): boolean {
    this.#reader.begin(method, isUpgradeAsked, this.#user!)
    this.#silence.heard()
    if (body !== undefined && lengthOf(body) > MAX_COPIED_BYTES) {
      this.#writeLarge(head, body)
      return false
    }
    if (body === undefined) this.#socket.write(head, 'latin1')
    else this.#writeBehind(head, body.length === 1 ? body[0]! : Buffer.concat(body), '')
    return true
  }

  /** Takes the head of a request whose body is still to come. It is sent together with the first part of the body. */
  beginHead(method: string, head: string): void {
    this.#reader.begin(method, false, this.#user!)
    this.#waitingHead = head
  }

  /** Sends a waiting head right after the current callback, unless a part of the body is written first. */
  sendHeadSoon(): void {
    process.nextTick(sendWaitingHead, this)
  }

  sendWaitingHead(): void {
    if (this.#waitingHead !== '' && this.#state === 'busy') this.#writeBehind('', NO_BYTES, '')
  }

  /** Writes a part of a body. The caller may reuse the bytes when this returns. Returns false if the caller should wait for onDrain. */
  write(bytes: Buffer): boolean {
    return this.#writeBehind('', bytes, '')
  }

  /** Writes a part of a body as a chunk, on the same terms as `write`. */
  writeChunk(bytes: Buffer): boolean {
    return this.#writeBehind(`${bytes.length.toString(16)}\r\n`, bytes, '\r\n')
  }

  writeLastChunk(): void {
    this.#writeBehind('0\r\n\r\n', NO_BYTES, '')
  }

  /** Limits how long the backend may stay silent from now on; 0 means no limit. Any activity on the socket restarts the time. */
  limitSilence(ms: number): void {
    this.#silence.limit(ms)
  }

  /** Closes the connection if it has been silent or idle for too long. The sweep calls this. */
  checkSilence(): void {
    if (this.#state === 'idle') {
      if (this.#silence.isRestOver()) this.#closeIdle()
    } else if (this.#silence.isTooLong()) this.#timeOut()
  }

  /** For how long the backend has sent nothing although the whole request was sent and the client takes what comes. */
  get silentMs(): number {
    return this.#state === 'busy' && this.#user?.isSent === true && !this.#isPaused ? this.#silence.silentMs : 0
  }

  pause(): void {
    this.#isPaused = true
    this.#socket.pause()
  }

  resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    this.#socket.resume()
  }

  /** Makes the connection idle, for at most this long. */
  rest(ms: number): void {
    this.#user = undefined
    this.#state = 'idle'
    this.#waitingHead = ''
    this.#silence.rest(ms)
    this.resume()
  }

  /** Closes the connection at once. The user gets no further callback. */
  destroy(): void {
    this.#user = undefined
    this.#state = 'closed'
    this.#socket.destroy()
  }

  #connected(): void {
    this.#state = 'busy'
    this.#silence.limit(0)
    const user = this.#user
    try {
      user?.onConnected()
    } catch (error) {
      this.#break(user!, error)
    }
  }

  #writeBehind(before: string, bytes: Buffer, behind: string): boolean {
    const head = this.#waitingHead
    this.#waitingHead = ''
    this.#silence.heard()
    const hasRoom = writeAll(this.#socket, head + before, bytes, behind)
    if (!hasRoom) this.#silence.onUnsent()
    return hasRoom
  }

  /** A large body lies in memory that was claimed for it. It is not copied, because a slow backend would keep that second copy alive for long. */
  #writeLarge(head: string, body: readonly Buffer[]): void {
    this.#socket.cork()
    this.#socket.write(head, 'latin1')
    for (const piece of body) this.#socket.write(piece)
    this.#socket.uncork()
    this.#silence.onUnsent()
  }

  #drain(): void {
    this.#silence.onDrained()
    const user = this.#user
    try {
      user?.onDrain()
    } catch (error) {
      this.#break(user!, error)
    }
  }

  /** `bytes` may be the shared read buffer, so whatever is needed after this call must be copied. */
  #read(bytes: Buffer, length: number): void {
    if (this.#state === 'connecting' || this.#state === 'closed') return
    if (this.#state === 'idle') return this.#closeIdle() // a backend that sends bytes before it gets a request is out of sync
    const user = this.#user
    if (user === undefined) return
    this.#silence.heard()
    try {
      const unread = this.#reader.push(bytes, 0, length)
      if (this.#user !== user) return // the user gave up the connection during the call
      if (this.#reader.isDone) this.#done(unread === 0)
      else if (this.#reader.isUpgraded) this.#handOver(Buffer.from(bytes.subarray(length - unread, length)))
      else {
        // Only a write can tell how a response that ends with its connection has ended (see #askHowItEnded), so our side must still be open then.
        if (this.#reader.isWholeAtClose) this.#socket.allowHalfOpen = true
        user.onQuiet()
      }
    } catch (error) {
      this.#break(user, error)
    }
  }

  /** Tells malformed responses from errors of our own code. Errors are caught here because one that escapes a socket listener would end the worker. */
  #break(user: ConnectionUser, error: unknown): void {
    if (error instanceof InvalidResponse) return this.#fail(exchangeFailure(error))
    this.destroy()
    user.onBroken(error)
  }

  #finish(): void {
    if (this.#state === 'connecting') {
      return this.#fail(new BackendFailure('backend_refused', 'the backend closed the connection before it was ready'))
    }
    if (this.#state !== 'busy') return this.#closeIdle()
    if (this.#reader.isWholeAtClose && this.#user !== undefined) return this.#askHowItEnded(this.#user)
    this.#end()
  }

  /**
   * libuv reports a reset that arrives with the last bytes as an ordinary end. A write reveals it: the write fails with ECONNRESET if the
   * connection was reset, and with EPIPE if it was reset after an orderly end. The write is an empty line, which servers skip before a request (RFC
   * 9112 2.2).
   */
  #askHowItEnded(user: ConnectionUser): void {
    if (user.isSent) this.#socket.write('\r\n')
    // By then a pending write has failed, if it is going to.
    setImmediate(() => {
      if (this.#user !== user) return
      const { failure } = this.#refusedWrites
      if (failure?.code === 'ECONNRESET') this.#fail(exchangeFailure(failure))
      else this.#end()
    })
  }

  #end(): void {
    const user = this.#user
    if (user === undefined) return
    try {
      const isWhole = this.#reader.finish()
      if (this.#user === undefined) return
      if (isWhole) this.#done(false)
      else this.#fail(new BackendFailure('backend_reset', 'the backend closed the connection before its response was complete'))
    } catch (error) {
      this.#break(user, error)
    }
  }

  #done(canBeUsedAgain: boolean): void {
    const user = this.#user!
    this.#user = undefined
    user.onDone(canBeUsedAgain)
  }

  #handOver(rest: Buffer): void {
    const user = this.#user!
    this.#user = undefined
    this.#state = 'closed'
    this.#refusedWrites.stop()
    this.#socket.pause()
    for (const [event, listener] of Object.entries(this.#listeners)) this.#socket.off(event, listener)
    user.onUpgraded(this.#socket, rest)
  }

  #timeOut(): void {
    const detail =
      this.#state === 'connecting' ? `no connection within ${this.#parts.connectTimeoutMs} ms` : 'the backend was silent for too long'
    this.#fail(new BackendFailure('backend_timeout', detail))
  }

  #fail(failure: BackendFailure): void {
    if (this.#state === 'closed') return
    if (this.#state === 'idle') return this.#closeIdle()
    const user = this.#user
    // The state changes only after the callback, because the user checks isConnecting to decide on a retry.
    this.#user = undefined
    this.#socket.destroy()
    try {
      user?.onFailure(failure)
    } catch (error) {
      user?.onBroken(error)
    }
    this.#state = 'closed'
  }

  #closeIdle(): void {
    if (this.#state === 'closed') return
    this.destroy()
    this.#parts.onIdleClosed(this)
  }
}

function sendWaitingHead(connection: BackendConnection): void {
  connection.sendWaitingHead()
}

/** Returns how many bytes the pieces of a body have together. */
export function lengthOf(pieces: readonly Buffer[]): number {
  let length = 0
  for (const piece of pieces) length += piece.length
  return length
}

const NO_BYTES = Buffer.alloc(0)
/** A larger body is written separately instead of being copied into one write with its head. */
const MAX_COPIED_BYTES = 64 * 1024

/** Buffer for every read of every connection, as large as the most that a backend sends at once. */
const READ_BUFFER = newReadBuffer(64 * 1024)

/**
 * Connects to the backend. `onRead` gets each read in a buffer that all connections share, which saves a buffer, a stream event and a copy per
 * read. With TLS, or without `onRead`, reads arrive as 'data' events.
 */
function openSocket(url: URL, lookup: LookupFunction | undefined, onRead: ((bytes: Buffer, length: number) => void) | undefined): Socket {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const guard = lookup && { lookup }
  if (url.protocol === 'http:') {
    const port = Number(url.port || 80)
    if (onRead === undefined) return connectTcp({ host, port, ...guard })
    const callback = (length: number): boolean => {
      onRead(READ_BUFFER, length)
      releaseRead(READ_BUFFER, length)
      return true
    }
    return connectTcp({ host, port, ...guard, onread: { buffer: READ_BUFFER, callback } })
  }
  const servername = isIP(host) === 0 ? { servername: host } : {}
  return connectTls({ host, port: Number(url.port || 443), ALPNProtocols: ['http/1.1'], ...guard, ...servername })
}
