import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { MAX_WAITING, READ_AHEAD, ReadHold } from '../../listen/node-http/request-turns.ts'
import { GrowingBuffer } from '../../memory/growing-buffer.ts'
import type { DownstreamListener, Peer, PeerOf } from '../downstream.ts'

/** Gets notified when the client leaves. */
type ClientWatcher = Pick<DownstreamListener, 'onClientEnded' | 'onClientGone'>

/** Number of requests that wait on all connections together. */
interface Pipelines {
  waiting: number
}

interface WaitingRequest {
  /** Undefined for malformed bytes and for CONNECT, which are refused in their turn. */
  readonly req: IncomingMessage | undefined
  readonly begin: () => void
}

/** A client's connection. One request at a time is in progress; those pipelined after it wait, undecided, for its response. */
export class ClientConnection {
  readonly peer: Peer
  readonly #socket: Socket
  readonly #pipelines: Pipelines
  #current: ServerResponse | undefined
  #watcher: ClientWatcher | undefined
  readonly #waiting: WaitingRequest[] = []
  readonly #reading: ReadHold
  readonly #goOn = (): void => this.#beginNext()
  hasEnded: boolean
  /** Nobody is left to read a response. */
  isGone = false
  /** The last request was refused. Whatever follows may be part of it, and gets no response. */
  isRefused = false

  constructor(socket: Socket, peer: Peer, pipelines: Pipelines) {
    this.peer = peer
    this.#socket = socket
    this.#reading = new ReadHold(socket)
    this.#pipelines = pipelines
    // A connection that was handed over may have ended before.
    this.hasEnded = socket.readableEnded
    socket.once('end', () => {
      this.hasEnded = true
      this.#watcher?.onClientEnded()
    })
    socket.once('close', () => this.giveUp())
  }

  /** The response in progress. */
  get openResponse(): ServerResponse | undefined {
    return this.#current?.closed === false ? this.#current : undefined
  }

  /** Whether a request that arrives now has to wait. */
  get isBusy(): boolean {
    return this.openResponse !== undefined || this.#waiting.length > 0
  }

  /** The request that arrived last, if its response has not been sent yet. */
  get lastOpenRequest(): IncomingMessage | undefined {
    return this.#waiting.length > 0 ? this.#waiting.at(-1)!.req : this.openResponse?.req
  }

  /** Makes this the response that later requests wait for. */
  begin(res: ServerResponse, watcher: ClientWatcher): void {
    this.#current = res
    this.#watcher = watcher
  }

  /**
   * To be called while the connection is busy. `begin` is called when all earlier responses have been sent, or never if the connection ends first.
   * If too many requests wait already, this closes the connection and returns false.
   */
  wait(req: IncomingMessage | undefined, begin: () => void): boolean {
    if (this.#waiting.length >= READ_AHEAD && this.#pipelines.waiting >= MAX_WAITING) {
      this.refuseRest()
      this.#socket.destroy()
      return false
    }
    this.#waiting.push({ req, begin })
    this.#pipelines.waiting++
    if (this.#waiting.length === 1) this.openResponse!.once('close', this.#goOn)
    if (this.#waiting.length >= READ_AHEAD) this.#reading.hold()
    return true
  }

  /** Removes the request that arrived last, because it turned out to be malformed. Returns false if it is already in progress. */
  forgetLast(): boolean {
    return this.#takeOff('pop') !== undefined
  }

  /** Drops what waits and ignores what follows: after an ambiguous request, it may be part of that request. */
  refuseRest(): void {
    this.isRefused = true
    this.#forgetWaiting()
    this.#reading.release()
  }

  /** To be called when nobody waits for responses on this connection any more. */
  giveUp(): void {
    this.isGone = true
    this.#forgetWaiting()
    this.#watcher?.onClientGone()
  }

  #beginNext(): void {
    // RFC 9112 9.6: nothing is processed after the response that closes the connection
    if (!this.#socket.writable) this.#forgetWaiting()
    while (this.openResponse === undefined && this.#waiting.length > 0) this.#takeOff('shift')!.begin()
    if (this.#waiting.length > 0) this.openResponse!.once('close', this.#goOn)
    if (this.#waiting.length < READ_AHEAD) this.#reading.release()
  }

  #takeOff(end: 'shift' | 'pop'): WaitingRequest | undefined {
    const request = this.#waiting[end]()
    if (request !== undefined) this.#pipelines.waiting--
    return request
  }

  #forgetWaiting(): void {
    this.#pipelines.waiting -= this.#waiting.length
    this.#waiting.length = 0
  }
}

/** Keeps one ClientConnection for each socket. */
export class ClientConnections {
  readonly #peerOf: PeerOf
  readonly #known = new WeakMap<Socket, ClientConnection>()
  readonly #pipelines: Pipelines = { waiting: 0 }

  constructor(peerOf: PeerOf) {
    this.#peerOf = peerOf
  }

  of(socket: Socket): ClientConnection {
    let connection = this.#known.get(socket)
    if (connection === undefined) {
      connection = new ClientConnection(socket, this.#peerOf(socket), this.#pipelines)
      this.#known.set(socket, connection)
    }
    return connection
  }

  /** Whether a request is in progress or waiting on this connection. */
  isServing(socket: Socket): boolean {
    return this.#known.get(socket)?.isBusy ?? false
  }
}

/** Reading pauses beyond this. It is enough for the few frames that a client sends before it knows whether its new protocol is accepted. */
const MAX_EARLY_BYTES = 64 * 1024

/**
 * Keeps reading while a WebSocket is being decided and opened. What arrives is kept for the backend, and a client that leaves is noticed, which
 * would never happen on a connection that nobody reads.
 */
export class EarlyBytes {
  readonly #socket: Socket
  readonly #bytes = new GrowingBuffer()
  readonly #onData = (chunk: Buffer): void => {
    this.#bytes.add(chunk)
    if (this.#bytes.size > MAX_EARLY_BYTES) this.#socket.pause()
  }

  constructor(socket: Socket, first: Buffer) {
    this.#socket = socket
    this.#bytes.add(first)
    socket.on('data', this.#onData).resume()
  }

  /** Returns what has arrived, and leaves the connection to the caller. */
  take(): Buffer {
    this.#socket.off('data', this.#onData).pause()
    return this.#bytes.bytes
  }

  /** Discards what has arrived and what still arrives, because the protocol will not change. */
  drop(): void {
    this.#socket.off('data', this.#onData).resume()
  }
}
