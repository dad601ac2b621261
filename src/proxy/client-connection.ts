import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { parseAddress } from '../request/address.ts'
import type { TrustedProxies } from '../request/client-address.ts'

/** Who is at the other end of a client's connection. */
export interface Peer {
  readonly address: string
  /** What it says in X-Forwarded-* and the like is believed. */
  readonly isTrusted: boolean
}

/**
 * With so many requests waiting, the connection is not read any further. Below that it is, because a client that leaves is
 * noticed only on a connection that is read. One read of Node is 64 KiB, and it parses all of it: some 2,400 requests at most.
 */
const READ_AHEAD = 16
/** In all connections of a worker, at about 1.5 KiB each. Beyond this, those that read ahead further than the bound above are cut. */
const MAX_WAITING = 10_000

/** Whoever must know when the client leaves. */
export interface ClientWatcher {
  /** The client has ended its side; it may still be there. */
  onClientEnd(): void
  /** The client is gone. */
  onClientGone(): void
}

/** What waits on all connections. */
interface Pipelines {
  waiting: number
}

interface WaitingRequest {
  /** Undefined for malformed bytes, which get a 400 in their turn. */
  readonly req: IncomingMessage | undefined
  readonly begin: () => void
}

/** A client's connection. One request on it is under way; what is pipelined behind that one waits, undecided, for its response. */
export class ClientConnection {
  readonly peer: Peer
  readonly #socket: Socket
  readonly #pipelines: Pipelines
  #current: ServerResponse | undefined
  readonly #waiting: WaitingRequest[] = []
  #isHeld = false
  #hasBeenHeld = false
  readonly #watchers = new Set<ClientWatcher>()
  readonly #goOn = (): void => this.#beginNext()
  hasEnded = false
  /** Nobody is there any more to read an answer. */
  isGone = false
  /** Whatever comes behind what came may be part of it, and is not answered. */
  isRefused = false

  constructor(socket: Socket, trustedProxies: TrustedProxies, pipelines: Pipelines) {
    // A server that listens on IPv6 sees IPv4 peers in their mapped form.
    const text = (socket.remoteAddress ?? '').replace(/^::ffff:(?=\d+\.)/i, '')
    const address = parseAddress(text)
    this.peer = { address: text, isTrusted: address !== undefined && trustedProxies.includes(address) }
    this.#socket = socket
    this.#pipelines = pipelines
    socket.once('end', () => {
      this.hasEnded = true
      for (const watcher of this.#watchers) watcher.onClientEnd()
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

  /** The request that came last, if it is not answered yet. */
  get lastOpenRequest(): IncomingMessage | undefined {
    return this.#waiting.length > 0 ? this.#waiting.at(-1)!.req : this.openResponse?.req
  }

  /** From now on this is the response that others wait for. */
  begin(res: ServerResponse): void {
    this.#current = res
  }

  /**
   * To be called while it is busy: begins when everything before is answered, or never if the connection ends first. Answers
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
    if (this.#waiting.length >= READ_AHEAD) this.#hold()
    return true
  }

  /** The request that came last turned out to be malformed. Returns false if it is under way already. */
  forgetLast(): boolean {
    return this.#takeOff('pop') !== undefined
  }

  /** A request was ambiguous: what waits behind it may be a part of it. */
  refuseRest(): void {
    this.isRefused = true
    this.#forgetWaiting()
    this.#release()
  }

  watch(watcher: ClientWatcher): void {
    this.#watchers.add(watcher)
  }

  unwatch(watcher: ClientWatcher): void {
    this.#watchers.delete(watcher)
  }

  /** Nobody waits for answers here any more. */
  giveUp(): void {
    this.isGone = true
    this.#forgetWaiting()
    for (const watcher of this.#watchers) watcher.onClientGone()
  }

  #beginNext(): void {
    // RFC 9112 9.6: nothing is processed behind the response that closes the connection
    if (!this.#socket.writable) this.#forgetWaiting()
    while (this.openResponse === undefined && this.#waiting.length > 0) this.#takeOff('shift')!.begin()
    if (this.#waiting.length > 0) this.openResponse!.once('close', this.#goOn)
    if (this.#waiting.length < READ_AHEAD) this.#release()
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

  #hold(): void {
    this.#isHeld = true
    this.#socket.pause()
    if (this.#hasBeenHeld) return
    this.#hasBeenHeld = true
    // Node resumes the socket behind every message that it has parsed.
    this.#socket.on('resume', () => {
      if (this.#isHeld) this.#socket.pause()
    })
  }

  #release(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#socket.resume()
  }
}

/** Knows each connection once. */
export class ClientConnections {
  readonly #trustedProxies: TrustedProxies
  readonly #known = new WeakMap<Socket, ClientConnection>()
  readonly #pipelines: Pipelines = { waiting: 0 }

  constructor(trustedProxies: TrustedProxies) {
    this.#trustedProxies = trustedProxies
  }

  of(socket: Socket): ClientConnection {
    let connection = this.#known.get(socket)
    if (connection === undefined) {
      connection = new ClientConnection(socket, this.#trustedProxies, this.#pipelines)
      this.#known.set(socket, connection)
    }
    return connection
  }

  /** Whether there is something on it to be waited for. */
  isServing(socket: Socket): boolean {
    return this.#known.get(socket)?.isBusy ?? false
  }
}
