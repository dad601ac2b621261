import type { Socket } from 'node:net'
import type { ConnectionShares, ConnectionSlots } from './connection-slots.ts'

/** When slots are short, a connection on which nothing was sent for so long loses its own. */
const MAX_SILENCE_MS = 1000

export interface ConnectionLimits {
  readonly shares: ConnectionShares
  /** How many connections there may be on this listener. */
  readonly slots: ConnectionSlots
  /** A connection came for which there was no slot. */
  readonly onFull: () => void
}

/** The connections of one listener in one worker: those that have a slot. */
export class AdmittedConnections {
  readonly #limits: ConnectionLimits
  readonly #turnedAway: TurnedAway
  readonly #closeIdle: () => void
  /** And when they got their slot. */
  readonly #sockets = new Map<Socket, number>()
  #mayReclaimAtMs = 0

  /** `refusal` is what a connection is told for which there is no slot. `closeIdle` closes those that have nothing under way. */
  constructor(limits: ConnectionLimits, refusal: string | Uint8Array, closeIdle: () => void) {
    this.#limits = limits
    this.#turnedAway = new TurnedAway(refusal)
    this.#closeIdle = closeIdle
  }

  sockets(): IterableIterator<Socket> {
    return this.#sockets.keys()
  }

  /** Returns false for a connection that is not to be served. One that is here already stays. */
  admit(socket: Socket): boolean {
    if (this.#sockets.has(socket)) return true
    const { shares, slots, onFull } = this.#limits
    if (!slots.take() && !(this.#reclaim() && slots.take())) {
      onFull()
      this.#turnedAway.refuse(socket)
      return false
    }
    this.#sockets.set(socket, performance.now())
    socket.once('close', () => this.#forget(socket))
    shares.opened()
    return true
  }

  cut(isCut: (socket: Socket, sinceMs: number) => boolean): void {
    for (const [socket, sinceMs] of this.#sockets) if (isCut(socket, sinceMs)) socket.destroy()
  }

  #forget(socket: Socket): void {
    if (!this.#sockets.delete(socket)) return
    this.#limits.shares.closed()
    this.#limits.slots.giveBack()
  }

  /** Closes connections without a request, for others want their slots. Returns whether there were any. */
  #reclaim(): boolean {
    const nowMs = performance.now()
    if (nowMs < this.#mayReclaimAtMs) return false
    // All connections are looked at; so long that this takes no more than some tenth of the time.
    this.#mayReclaimAtMs = nowMs + this.#sockets.size / 100
    this.#closeIdle()
    this.cut((socket, sinceMs) => socket.bytesRead === 0 && nowMs - sinceMs > MAX_SILENCE_MS)
    const before = this.#sockets.size
    // Their descriptors are free now, their 'close' comes later.
    for (const socket of this.#sockets.keys()) if (socket.destroyed) this.#forget(socket)
    return this.#sockets.size < before
  }
}

/** So many at once get their response for sure; others beyond them are cut at once. */
const MAX_LINGERING = 8
const LINGER_MS = 1000

const BODY =
  '{"error":{"message":"No more connections fit into the limit of open files.","type":"service_unavailable","code":"too_many_connections"}}'
export const NO_SLOT_OVER_HTTP =
  'HTTP/1.1 503 Service Unavailable\r\nX-Edge-Reason: too_many_connections\r\nRetry-After: 1\r\nContent-Type: application/json\r\n' +
  `Content-Length: ${BODY.length}\r\nConnection: close\r\n\r\n${BODY}`

/** Connections for which there is no slot: they get one refusal, whatever they ask, and are closed. */
class TurnedAway {
  readonly #refusal: string | Uint8Array
  #lingering = 0

  constructor(refusal: string | Uint8Array) {
    this.#refusal = refusal
  }

  /** A socket that is closed with unread bytes in it resets the client, which may then never see the response: they are read. */
  refuse(socket: Socket): void {
    socket.on('error', () => {}) // its 'close' follows
    socket.end(this.#refusal)
    if (this.#lingering >= MAX_LINGERING) return void socket.destroy()
    this.#lingering++
    const timer = setTimeout(() => socket.destroy(), LINGER_MS)
    socket.once('close', () => {
      this.#lingering--
      clearTimeout(timer)
    })
    socket.resume()
  }
}
