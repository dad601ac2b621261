import type { Socket } from 'node:net'
import type { ConnectionShares, ConnectionSlots } from './connection-slots.ts'

/** When slots are short, a connection that has sent nothing at all within this time loses its slot. */
const MAX_SILENCE_MS = 1000
/** At shutdown, a partial head has this long to become a request, and a handshake to end, even if open requests have longer. */
export const MAX_HEAD_GRACE_MS = 2000

/** Encrypts the connections of a listener. */
export interface ConnectionSecurity {
  /** Sent to connections for which there is no slot. */
  readonly refusal: Uint8Array
  /** Calls `onSecure` with the socket to serve instead of the given one. If there never is one, closes the connection. */
  secure(socket: Socket, onSecure: (secured: Socket) => void): void
}

export interface ConnectionLimits {
  readonly shares: ConnectionShares
  /** Slots for the connections of this listener, in all workers. */
  readonly slots: ConnectionSlots
  /** Called when there is no slot for a connection. */
  readonly onFull: () => void
  /** Undefined if connections stay plain. */
  readonly security?: ConnectionSecurity | undefined
}

/** The connections of one listener in one worker that have a slot. */
export class AdmittedConnections {
  readonly #limits: ConnectionLimits
  readonly #turnedAway: TurnedAway
  readonly #closeIdle: () => void
  /** Since when each connection could send a request. Until its handshake is over, one that is being secured is here with its plain socket. */
  readonly #sockets = new Map<Socket, number>()
  readonly #handshaking = new Set<Socket>()
  #mayReclaimAtMs = 0

  /** `refusal` is sent to plain connections for which there is no slot. `closeIdle` closes connections with nothing under way. */
  constructor(limits: ConnectionLimits, refusal: string | Uint8Array, closeIdle: () => void) {
    this.#limits = limits
    this.#turnedAway = new TurnedAway(limits.security?.refusal ?? refusal)
    this.#closeIdle = closeIdle
  }

  sockets(): IterableIterator<Socket> {
    return this.#sockets.keys()
  }

  /**
   * Calls `serve` once the connection has a slot and is secured, if it is to be, with the socket to be served; never if it has no slot.
   * A socket that was served before is served again at once.
   */
  admit(socket: Socket, serve: (socket: Socket) => void): void {
    if (this.#sockets.has(socket)) return serve(socket)
    const { shares, slots, onFull, security } = this.#limits
    if (!slots.take() && !(this.#reclaim() && slots.take())) {
      onFull()
      return this.#turnedAway.refuse(socket)
    }
    let current = socket
    this.#sockets.set(socket, performance.now())
    socket.once('close', () => this.#forget(current))
    shares.opened()
    if (security === undefined) return serve(socket)
    this.#handshaking.add(socket)
    security.secure(socket, (secured) => {
      this.#handshaking.delete(socket)
      this.#sockets.delete(socket)
      this.#sockets.set(secured, performance.now())
      current = secured
      serve(secured)
    })
  }

  /** Ends connections whose handshake is not over. */
  cutHandshakes(): void {
    for (const socket of this.#handshaking) socket.destroy()
  }

  /** Cuts connections that have had this long to send something, and have sent nothing. */
  cutSilent(ms: number): void {
    const beforeMs = performance.now() - ms
    for (const [socket, sinceMs] of this.#sockets) if (socket.bytesRead === 0 && sinceMs <= beforeMs) socket.destroy()
  }

  cut(isCut: (socket: Socket) => boolean): void {
    for (const socket of this.#sockets.keys()) if (isCut(socket)) socket.destroy()
  }

  #forget(socket: Socket): void {
    if (!this.#sockets.delete(socket)) return
    this.#handshaking.delete(socket)
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
    this.cutSilent(MAX_SILENCE_MS)
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
