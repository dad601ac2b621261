import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { newReadBuffer, releaseRead, writeAll } from '../../memory/buffers.ts'
import { BackendFailure, connectFailure, exchangeFailure, RefusedWrites } from './backend-failure.ts'
import { InvalidResponse } from './response-head.ts'
import { ResponseReader, type ResponseSink } from './response-reader.ts'
import { type SilenceSweep, SilenceWatch } from './silence-sweep.ts'

/** What a connection tells the call that it serves. Calls know connections; this type keeps connections from knowing calls. */
export interface ConnectionUser extends ResponseSink {
  /** The whole request was written. */
  readonly isSent: boolean
  /** The connection is there: the request may be written. */
  onConnected(): void
  /** What was written has gone out. */
  onDrain(): void
  /** All that has arrived was handed over. */
  onQuiet(): void
  /** The bytes behind the head of a 101 response: from now on the socket is the user's own. */
  onUpgraded(socket: Socket, rest: Buffer): void
  onFailure(failure: BackendFailure): void
  /** Our own code failed while the response was read, not the backend. */
  onBroken(error: unknown): void
  /** The whole response was handed over. */
  onDone(canBeUsedAgain: boolean): void
}

/** What the connections of a backend share. */
export interface BackendConnectionParts {
  readonly url: URL
  readonly connectTimeoutMs: number
  readonly sweep: SilenceSweep
  /** A connection that nobody used is closed. */
  onIdleClosed(connection: BackendConnection): void
}

type State = 'connecting' | 'busy' | 'idle' | 'closed'

/** A connection to the backend: one request at a time, any number one after the other. */
export class BackendConnection {
  readonly #parts: BackendConnectionParts
  readonly #socket: Socket
  readonly #silence: SilenceWatch
  readonly #refusedWrites: RefusedWrites
  readonly #reader = new ResponseReader()
  #user: ConnectionUser | undefined
  #state: State = 'connecting'
  #isPaused = false
  /** The head of a request whose body is to come. It leaves with the first of it. */
  #waitingHead = ''
  /** Requests that it has carried before the one at hand. */
  served = 0
  /** What the backend says of how long an idle connection lives. */
  keepAliveMs: number | undefined
  readonly #listeners = {
    error: (error: Error) => this.#fail(this.#state === 'connecting' ? connectFailure(error) : exchangeFailure(error)),
    data: (chunk: Buffer) => this.#read(chunk, chunk.length),
    end: () => this.#finish(),
    drain: () => this.#drain(),
    close: () => this.#fail(new BackendFailure('backend_reset', 'the connection was closed')),
  }

  /** `isForUpgrade`: the socket may become a tunnel, which reads in its own way. */
  constructor(parts: BackendConnectionParts, user: ConnectionUser, isForUpgrade: boolean) {
    const { url, connectTimeoutMs, sweep } = parts
    this.#parts = parts
    this.#user = user
    this.#socket = openSocket(url, isForUpgrade ? undefined : (bytes, length) => this.#read(bytes, length))
    this.#socket.setNoDelay(true)
    this.#silence = new SilenceWatch(sweep, this.#socket, connectTimeoutMs)
    this.#refusedWrites = new RefusedWrites(this.#socket)
    this.#socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => this.#connected())
    for (const [event, listener] of Object.entries(this.#listeners)) this.#socket.on(event, listener)
  }

  /** No byte of the request at hand has gone out: there was no connection for it. */
  get isConnecting(): boolean {
    return this.#state === 'connecting'
  }

  get hasResponseBegun(): boolean {
    return this.#reader.hasBegun
  }

  /** Some of what was written is still in memory: the backend takes no more for now. */
  get hasUnsent(): boolean {
    return this.#socket.writableLength > 0
  }

  /** A chunk was relayed in part: what follows would be taken for the rest of it. */
  get isInsideRelayedChunk(): boolean {
    return this.#reader.isInsideRelayedChunk
  }

  /** Takes an idle connection into use. The user may write at once. */
  use(user: ConnectionUser): void {
    this.#user = user
    this.#state = 'busy'
    this.served++
    this.#silence.limit(0)
  }

  /** Writes the head of a request and its body. Returns false where the body must not change before onDrain. */
  begin(method: string, isUpgradeAsked: boolean, head: string, body: Buffer | undefined): boolean {
    this.#reader.begin(method, isUpgradeAsked, this.#user!)
    this.#silence.heard()
    if (body !== undefined && body.length > MAX_COPIED_BYTES) {
      this.#writeLarge(head, body)
      return false
    }
    if (body === undefined) this.#socket.write(head, 'latin1')
    else this.#writeBehind(head, body, '')
    return true
  }

  /** Takes the head of a request whose body is to come. It leaves with the first of it. */
  beginHead(method: string, head: string): void {
    this.#reader.begin(method, false, this.#user!)
    this.#waitingHead = head
  }

  /** Such a head waits no longer than this turn. */
  sendHeadSoon(): void {
    process.nextTick(sendWaitingHead, this)
  }

  sendWaitingHead(): void {
    if (this.#waitingHead !== '' && this.#state === 'busy') this.#writeBehind('', NO_BYTES, '')
  }

  /** Writes a part of a body. The bytes are the caller's again when this returns. Returns false when it is time to wait for onDrain. */
  write(bytes: Buffer): boolean {
    return this.#writeBehind('', bytes, '')
  }

  /** The same, as a chunk. */
  writeChunk(bytes: Buffer): boolean {
    return this.#writeBehind(`${bytes.length.toString(16)}\r\n`, bytes, '\r\n')
  }

  writeLastChunk(): void {
    this.#writeBehind('0\r\n\r\n', NO_BYTES, '')
  }

  /** How long the backend may stay silent from now on; 0: as long as it likes. Whatever happens on the socket starts the time anew by itself. */
  limitSilence(ms: number): void {
    this.#silence.limit(ms)
  }

  /** To be called by the sweep. */
  checkSilence(): void {
    if (this.#state === 'idle') {
      if (this.#silence.isRestOver()) this.#closeIdle()
    } else if (this.#silence.isTooLong()) this.#timeOut()
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

  /** Makes it idle, for at most this long. */
  rest(ms: number): void {
    this.#user = undefined
    this.#state = 'idle'
    this.#waitingHead = ''
    this.#silence.rest(ms)
    this.resume()
  }

  /** Ends it at once. The user hears nothing more. */
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

  /** A large body is in memory that was claimed for it: while a slow backend takes it, there is no second one. */
  #writeLarge(head: string, body: Buffer): void {
    this.#socket.cork()
    this.#socket.write(head, 'latin1')
    this.#socket.write(body)
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

  /** The bytes are those of one read: what is needed beyond the call is copied. */
  #read(bytes: Buffer, length: number): void {
    if (this.#state === 'connecting' || this.#state === 'closed') return
    if (this.#state === 'idle') return this.#closeIdle() // a backend that talks before it is asked is out of step
    const user = this.#user
    if (user === undefined) return
    this.#silence.heard()
    try {
      const unread = this.#reader.push(bytes, 0, length)
      if (this.#user !== user) return // it gave the connection up meanwhile
      if (this.#reader.isDone) this.#done(unread === 0)
      else if (this.#reader.isUpgraded) this.#handOver(Buffer.from(bytes.subarray(length - unread, length)))
      else {
        // When the backend ends such a response, a write tells how it ended: our side must still be open then.
        if (this.#reader.isWholeAtClose) this.#socket.allowHalfOpen = true
        user.onQuiet()
      }
    } catch (error) {
      this.#break(user, error)
    }
  }

  /** Distinguishes malformed bytes of the backend from faults of our own. What a listener throws would end the worker. */
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
   * Libuv takes a reset that arrives with the last bytes for their end. A write tells: it fails with ECONNRESET on a connection that
   * was reset, and with EPIPE on one that was reset after its end. Servers skip an empty line before a request (RFC 9112 2.2).
   */
  #askHowItEnded(user: ConnectionUser): void {
    if (user.isSent) this.#socket.write('\r\n')
    // By then a write that was under way has failed, if it does.
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
      else this.#fail(new BackendFailure('backend_reset', 'the backend closed the connection before its response was whole'))
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
    // The state is left for the user to see: whether it was still connecting.
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

const NO_BYTES = Buffer.alloc(0)
/** A body that is larger is not copied to leave in one write with its head. */
const MAX_COPIED_BYTES = 64 * 1024

/** As much as a backend sends at once in the best case. Every read of every connection uses it. */
const READ_BUFFER = newReadBuffer(64 * 1024)

/**
 * Connects to the backend. `onRead` gets what is read, in a buffer that all connections share, with no buffer, stream event or copy for each
 * read; with TLS, and without `onRead`, reads come as 'data'.
 */
function openSocket(url: URL, onRead: ((bytes: Buffer, length: number) => void) | undefined): Socket {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (url.protocol === 'http:') {
    const port = Number(url.port || 80)
    if (onRead === undefined) return connectTcp({ host, port })
    const callback = (length: number): boolean => {
      onRead(READ_BUFFER, length)
      releaseRead(READ_BUFFER, length)
      return true
    }
    return connectTcp({ host, port, onread: { buffer: READ_BUFFER, callback } })
  }
  const servername = isIP(host) === 0 ? { servername: host } : {}
  return connectTls({ host, port: Number(url.port || 443), ALPNProtocols: ['http/1.1'], ...servername })
}
