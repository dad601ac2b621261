import type { Socket } from 'node:net'
import type { ConnectionShares, ConnectionSlots } from './connection-slots.ts'

/** When slots are short, a connection that has sent nothing at all within this time loses its slot. */
const MAX_SILENCE_MS = 1000

export interface ConnectionLimits {
  readonly shares: ConnectionShares
  /** Slots for the connections of this listener, in all workers. */
  readonly slots: ConnectionSlots
  /** Called when there is no slot for a connection. */
  readonly onFull: () => void
}

/** The connections of one listener in one worker that have a slot. */
export class AdmittedConnections {
  readonly #limits: ConnectionLimits
  readonly #turnedAway: TurnedAway
  readonly #closeIdle: () => void
  /** When each connection got its slot. */
  readonly #sockets = new Map<Socket, number>()
  #mayReclaimAtMs = 0

  /** `refusal` is sent to connections for which there is no slot. `closeIdle` closes connections with nothing under way. */
  constructor(limits: ConnectionLimits, refusal: string | Uint8Array, closeIdle: () => void) {
    this.#limits = limits
    this.#turnedAway = new TurnedAway(refusal)
    this.#closeIdle = closeIdle
  }

  sockets(): IterableIterator<Socket> {
    return this.#sockets.keys()
  }

  /** Returns false if the connection is not to be served. A connection that was admitted before is admitted again without another slot. */
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

  /** Closes connections without a request, because others need their slots. Returns whether any slot was freed. */
  #reclaim(): boolean {
    const nowMs = performance.now()
    if (nowMs < this.#mayReclaimAtMs) return false
    // Each pass visits all connections. The delay until the next one keeps passes to about a tenth of the time.
    this.#mayReclaimAtMs = nowMs + this.#sockets.size / 100
    this.#closeIdle()
    this.cut((socket, sinceMs) => socket.bytesRead === 0 && nowMs - sinceMs > MAX_SILENCE_MS)
    const before = this.#sockets.size
    // Destroyed sockets have freed their descriptors, but their 'close' events come later.
    for (const socket of this.#sockets.keys()) if (socket.destroyed) this.#forget(socket)
    return this.#sockets.size < before
  }
}

/** Number of refused connections that are kept open at a time, so that the client surely gets the refusal. Any more are cut at once. */
const MAX_LINGERING = 8
const LINGER_MS = 1000

const BODY =
  '{"error":{"message":"The limit on open files allows no more connections.","type":"service_unavailable","code":"too_many_connections"}}'
export const NO_SLOT_OVER_HTTP =
  'HTTP/1.1 503 Service Unavailable\r\nX-Edge-Reason: too_many_connections\r\nRetry-After: 1\r\nContent-Type: application/json\r\n' +
  `Content-Length: ${BODY.length}\r\nConnection: close\r\n\r\n${BODY}`

/** Connections for which there is no slot. Each gets the same refusal, whatever it asks, and is closed. */
class TurnedAway {
  readonly #refusal: string | Uint8Array
  #lingering = 0

  constructor(refusal: string | Uint8Array) {
    this.#refusal = refusal
  }

  /** Reads and drops what the client sends: closing a socket with unread bytes resets the connection, and the client may never see the refusal. */
  refuse(socket: Socket): void {
    socket.on('error', () => {}) // 'close' follows
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
