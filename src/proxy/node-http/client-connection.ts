import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { MAX_WAITING, READ_AHEAD, ReadHold } from '../../listen/node-http/request-turns.ts'
import { GrowingBuffer } from '../../memory/buffers.ts'
import type { DownstreamListener, Peer, PeerOf } from '../downstream.ts'

/** Must know when the client leaves. */
type ClientWatcher = Pick<DownstreamListener, 'onClientEnded' | 'onClientGone'>

/** What waits on all connections. */
interface Pipelines {
  waiting: number
}

interface WaitingRequest {
  /** Undefined for malformed bytes, which get a 400 in their turn. */
  readonly req: IncomingMessage | undefined
  readonly begin: () => void
}

/** A client's connection. One request on it is under way; what is pipelined after it waits, undecided, for its response. */
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
  /** Nobody is there any more to read a response. */
  isGone = false
  /** Its last request was refused. Whatever follows may be part of that one, and gets no response. */
  isRefused = false

  constructor(socket: Socket, peer: Peer, pipelines: Pipelines) {
    this.peer = peer
    this.#socket = socket
    this.#reading = new ReadHold(socket)
    this.#pipelines = pipelines
    // One that was handed over may have ended before.
    this.hasEnded = socket.readableEnded
    socket.once('end', () => {
      this.hasEnded = true
      this.#watcher?.onClientEnded()
    })
    socket.once('close', () => this.giveUp())
  }

  /** The response that is under way. */
  get openResponse(): ServerResponse | undefined {
    return this.#current?.closed === false ? this.#current : undefined
  }

  /** Whether a request that comes now has to wait. */
  get isBusy(): boolean {
    return this.openResponse !== undefined || this.#waiting.length > 0
  }

  /** The request that came last, if its response is not sent yet. */
  get lastOpenRequest(): IncomingMessage | undefined {
    return this.#waiting.length > 0 ? this.#waiting.at(-1)!.req : this.openResponse?.req
  }

  /** From now on this is the response that others wait for. */
  begin(res: ServerResponse, watcher: ClientWatcher): void {
    this.#current = res
    this.#watcher = watcher
  }

  /**
   * To be called while it is busy: begins when all responses before it are sent, or never if the connection ends first. Returns
   * false when too much waits already: the connection is cut.
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

  /** The request that came last turned out to be malformed. Returns false if it is under way already. */
  forgetLast(): boolean {
    return this.#takeOff('pop') !== undefined
  }

  /** A request was ambiguous: what waits after it may be a part of it. */
  refuseRest(): void {
    this.isRefused = true
    this.#forgetWaiting()
    this.#reading.release()
  }

  /** Nobody waits for responses here any more. */
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

/** Knows each connection once. */
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

  /** Whether there is something on it to be waited for. */
  isServing(socket: Socket): boolean {
    return this.#known.get(socket)?.isBusy ?? false
  }
}

/** What a client sends before it knows whether its new protocol is accepted: as much as a few frames. */
const MAX_EARLY_BYTES = 64 * 1024

/**
 * Reads on while a WebSocket is being decided and asked for: what comes is kept for the backend, and a client that leaves is
 * noticed, for a connection that nobody reads never ends.
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

  /** Returns what came, and leaves the connection to the caller. */
  take(): Buffer {
    this.#socket.off('data', this.#onData).pause()
    return this.#bytes.bytes
  }

  /** There will be no other protocol: what came and what still comes is thrown away. */
  drop(): void {
    this.#socket.off('data', this.#onData).resume()
  }
}
