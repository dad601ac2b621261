import type { Socket } from 'node:net'
import { addressSubject } from '../text/address.ts'
import type { ConnectionShares, ConnectionSlots } from './connection-slots.ts'

/** When slots are short, a connection without a whole request loses its slot after this time, or at once if its address has others of that kind. */
const MAX_SILENCE_MS = 1000
/** Part of all connections that may lose their slots at once, so that a crowd of new ones does not cost a pass over all of them each. */
const CUT_PART = 1 / 16
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

/** What the listener knows of its connections. */
export interface ConnectionUse {
  /** Closes connections with nothing under way. */
  closeIdle(): void
  /** Whether a request is under way, or part of a response is unsent. */
  isServing(socket: Socket): boolean
}

interface Admitted {
  /** Since when the connection could send a request. */
  readonly sinceMs: number
  /** The client's address, as slots are shared out. */
  readonly subject: string
  /** Whether the slot is one of those for probes alone. */
  readonly isKept: boolean
}

/** The connections of one listener in one worker that have a slot. */
export class AdmittedConnections {
  readonly #limits: ConnectionLimits
  readonly #turnedAway: TurnedAway
  readonly #use: ConnectionUse
  /** The oldest first. Until its handshake is over, one that is being secured is here with its plain socket. */
  readonly #sockets = new Map<Socket, Admitted>()
  readonly #handshaking = new Set<Socket>()
  /** When the next pass may begin: over all, and over those of a client that has its part. */
  readonly #mayReclaimAtMs = { all: 0, own: 0 }

  /** `refusal` is sent to plain connections for which there is no slot. */
  constructor(limits: ConnectionLimits, refusal: string | Uint8Array, use: ConnectionUse) {
    this.#limits = limits
    this.#turnedAway = new TurnedAway(limits.security?.refusal ?? refusal)
    this.#use = use
  }

  sockets(): IterableIterator<Socket> {
    return this.#sockets.keys()
  }

  /** Whether the connection may ask for nothing but a probe. */
  isKept(socket: Socket): boolean {
    return this.#sockets.get(socket)?.isKept === true
  }

  /**
   * Calls `serve` once the connection has a slot and is secured, if it is to be, with the socket to be served; never if it has no slot.
   * A socket that was served before is served again at once.
   */
  admit(socket: Socket, serve: (socket: Socket) => void): void {
    if (this.#sockets.has(socket)) return serve(socket)
    const { shares, onFull, security } = this.#limits
    const subject = addressSubject(socket.remoteAddress)
    const slot = this.#takeSlot(subject)
    if (slot === 'none') {
      onFull()
      return this.#turnedAway.refuse(socket)
    }
    let current = socket
    const admitted = { subject, isKept: slot === 'kept' }
    this.#sockets.set(socket, { ...admitted, sinceMs: performance.now() })
    socket.once('close', () => this.#forget(current))
    shares.opened()
    if (security === undefined) return serve(socket)
    this.#handshaking.add(socket)
    security.secure(socket, (secured) => {
      this.#handshaking.delete(socket)
      this.#sockets.delete(socket)
      this.#sockets.set(secured, { ...admitted, sinceMs: performance.now() })
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
    for (const [socket, { sinceMs }] of this.#sockets) if (socket.bytesRead === 0 && sinceMs <= beforeMs) socket.destroy()
  }

  cut(isCut: (socket: Socket) => boolean): void {
    for (const socket of this.#sockets.keys()) if (isCut(socket)) socket.destroy()
  }

  #takeSlot(subject: string): 'any' | 'kept' | 'none' {
    const { slots } = this.#limits
    const { reserved } = slots
    if (reserved === undefined) return slots.take() || (this.#reclaim() && slots.take()) ? 'any' : 'none'
    // One that has its part makes room for itself.
    if (!reserved.take(subject) && !(this.#reclaim(subject) && reserved.take(subject))) return 'none'
    if (slots.take(reserved.kept) || (this.#reclaim() && slots.take(reserved.kept))) return 'any'
    if (slots.take()) return 'kept'
    reserved.giveBack(subject)
    return 'none'
  }

  #forget(socket: Socket): void {
    const admitted = this.#sockets.get(socket)
    if (admitted === undefined) return
    this.#sockets.delete(socket)
    this.#handshaking.delete(socket)
    const { shares, slots } = this.#limits
    shares.closed()
    slots.giveBack()
    slots.reserved?.giveBack(admitted.subject)
  }

  /** Closes connections without a whole request, because others need their slots; only of this client, if it is given. Returns whether any slot was freed. */
  #reclaim(subject?: string): boolean {
    const scope = subject === undefined ? 'all' : 'own'
    const nowMs = performance.now()
    if (nowMs < this.#mayReclaimAtMs[scope]) return false
    const { size } = this.#sockets
    const enough = Math.ceil(size * CUT_PART)
    this.#use.closeIdle()
    this.cutSilent(MAX_SILENCE_MS)
    let freed = this.#forgetDestroyed(subject)
    if (freed === 0) {
      for (const socket of this.#half(nowMs, subject).slice(0, enough)) socket.destroy()
      freed = this.#forgetDestroyed(subject)
    }
    // Each pass visits all connections. Unless it frees many, the delay until the next one keeps passes to about a tenth of the time.
    if (freed < enough) this.#mayReclaimAtMs[scope] = nowMs + size / 100
    return freed > 0
  }

  /** Destroyed sockets have freed their descriptors, but their 'close' events come later. Returns how many there were. */
  #forgetDestroyed(subject?: string): number {
    let count = 0
    for (const [socket, admitted] of this.#sockets) {
      if (!socket.destroyed) continue
      this.#forget(socket)
      if (subject === undefined || admitted.subject === subject) count++
    }
    return count
  }

  /** Returns connections that have sent too little for a request: of the address that has most of them first, and of each the oldest first. */
  #half(nowMs: number, subject?: string): Socket[] {
    // Where slots are few, a hundred addresses have one each at most, and who comes next would never be served.
    const leastMs = this.#limits.slots.reserved === undefined ? MAX_SILENCE_MS : 0
    const half: { readonly socket: Socket; readonly rank: number }[] = []
    const counts = new Map<string, number>()
    for (const [socket, { sinceMs, subject: own }] of [...this.#sockets].reverse()) {
      if ((subject !== undefined && own !== subject) || this.#use.isServing(socket)) continue
      const rank = counts.get(own) ?? 0
      counts.set(own, rank + 1)
      if (rank > 0 || nowMs - sinceMs >= leastMs) half.push({ socket, rank })
    }
    half.reverse().sort((one, other) => other.rank - one.rank)
    return half.map(({ socket }) => socket)
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
