import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { BackendFailure, connectFailure, exchangeFailure } from './backend-failure.ts'
import { RefusedWrites } from './refused-writes.ts'
import { InvalidResponse } from './response-head.ts'
import { ResponseReader, type ResponseSink } from './response-reader.ts'

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

/** A connection to the backend: one request at a time, any number one after the other. */
export class BackendConnection {
  readonly #socket: Socket
  readonly #refusedWrites: RefusedWrites
  readonly #reader = new ResponseReader()
  #user: ConnectionUser | undefined
  #silenceMs = 0
  #state: 'connecting' | 'busy' | 'idle' | 'closed' = 'connecting'
  /** Requests that it has carried before the one at hand. */
  served = 0
  /** What the backend says of how long an idle connection lives. */
  keepAliveMs: number | undefined
  readonly #onIdleClosed: (connection: BackendConnection) => void
  readonly #listeners = {
    error: (error: Error) => this.#fail(this.#state === 'connecting' ? connectFailure(error) : exchangeFailure(error)),
    data: (chunk: Buffer) => this.#read(chunk),
    end: () => this.#finish(),
    drain: () => this.#guard((user) => user.onDrain()),
    timeout: () => this.#timeOut(),
    close: () => this.#fail(new BackendFailure('backend_reset', 'the connection was closed')),
  }

  constructor(url: URL, connectTimeoutMs: number, user: ConnectionUser, onIdleClosed: (connection: BackendConnection) => void) {
    this.#user = user
    this.#onIdleClosed = onIdleClosed
    this.#socket = open(url)
    this.#socket.setNoDelay(true)
    this.#refusedWrites = new RefusedWrites(this.#socket)
    const timer = setTimeout(() => {
      this.#fail(new BackendFailure('backend_timeout', `no connection within ${connectTimeoutMs} ms`))
    }, connectTimeoutMs)
    this.#socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => {
      clearTimeout(timer)
      this.#state = 'busy'
      this.#guard((user) => user.onConnected())
    })
    this.#socket.once('close', () => clearTimeout(timer))
    for (const [event, listener] of Object.entries(this.#listeners)) this.#socket.on(event, listener)
  }

  /** No byte of the request at hand has gone out: there was no connection for it. */
  get isConnecting(): boolean {
    return this.#state === 'connecting'
  }

  get hasResponseBegun(): boolean {
    return this.#reader.hasBegun
  }

  /** Takes an idle connection into use. The user may write at once. */
  use(user: ConnectionUser): void {
    this.#user = user
    this.#state = 'busy'
    this.served++
    this.limitSilence(0)
  }

  /** Writes the head of a request, with as much of its body as is there. */
  begin(method: string, isUpgradeAsked: boolean, head: string, body: Buffer | undefined): void {
    this.#reader.begin(method, isUpgradeAsked, this.#user!)
    if (body === undefined) this.#socket.write(head, 'latin1')
    else {
      this.#socket.cork()
      this.#socket.write(head, 'latin1')
      this.#socket.write(body)
      this.#socket.uncork()
    }
  }

  /** Returns false when it is time to wait for onDrain. */
  write(chunk: Buffer): boolean {
    return this.#socket.write(chunk)
  }

  writeChunk(chunk: Buffer): boolean {
    this.#socket.cork()
    this.#socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
    this.#socket.write(chunk)
    const hasRoom = this.#socket.write('\r\n', 'latin1')
    this.#socket.uncork()
    return hasRoom
  }

  /** How long the backend may stay silent from now on; 0: as long as it likes. */
  limitSilence(ms: number): void {
    // Whatever happens on the socket starts the time anew by itself.
    if (ms !== this.#silenceMs) this.#socket.setTimeout(ms)
    this.#silenceMs = ms
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /** Puts it to rest, for so long. */
  rest(ms: number): void {
    this.#user = undefined
    this.#state = 'idle'
    this.limitSilence(ms)
    this.#socket.resume()
  }

  /** Ends it at once. The user hears nothing more. */
  destroy(): void {
    this.#user = undefined
    this.#state = 'closed'
    this.#socket.destroy()
  }

  #read(chunk: Buffer): void {
    if (this.#state !== 'busy') return this.#closeIdle() // an idle backend that talks is out of step
    this.#guard((user) => {
      const rest = this.#reader.push(chunk)
      if (this.#user !== user) return // it gave the connection up meanwhile
      if (this.#reader.isUpgraded) return this.#handOver(rest)
      if (this.#reader.isDone) return this.#done(rest.length === 0)
      // When the backend ends such a response, a write tells how it ended: our side must still be open then.
      if (this.#reader.isWholeAtClose) this.#socket.allowHalfOpen = true
      user.onQuiet()
    })
  }

  /** Tells rubbish from the backend and mistakes of our own apart. What a listener throws would end the worker. */
  #guard(work: (user: ConnectionUser) => void): void {
    const user = this.#user
    if (user === undefined) return
    try {
      work(user)
    } catch (error) {
      if (error instanceof InvalidResponse) return this.#fail(exchangeFailure(error))
      this.destroy()
      user.onBroken(error)
    }
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
    this.#guard(() => {
      const isWhole = this.#reader.finish()
      if (this.#user === undefined) return
      if (isWhole) this.#done(false)
      else this.#fail(new BackendFailure('backend_reset', 'the backend closed the connection before its response was whole'))
    })
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
    this.#socket.setTimeout(0)
    this.#socket.pause()
    for (const [event, listener] of Object.entries(this.#listeners)) this.#socket.off(event, listener)
    user.onUpgraded(this.#socket, rest)
  }

  #timeOut(): void {
    if (this.#state === 'idle') return this.#closeIdle()
    this.#fail(new BackendFailure('backend_timeout', 'the backend was silent for too long'))
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
    this.#onIdleClosed(this)
  }
}

function open(url: URL): Socket {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (url.protocol === 'http:') return connectTcp({ host, port: Number(url.port || 80) })
  const servername = isIP(host) === 0 ? { servername: host } : {}
  return connectTls({ host, port: Number(url.port || 443), ALPNProtocols: ['http/1.1'], ...servername })
}
