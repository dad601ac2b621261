import type { Socket } from 'node:net'
import { addressSubject } from '../text/address.ts'
import type { ConnectionShares, ConnectionSlots } from './connection-slots.ts'

/** When slots are short, a connection without a whole request loses its slot after this time, whoever needs it. */
const MAX_SILENCE_MS = 1000
/** One of an address that has others of that kind loses it after this time; at once to an address that has fewer. */
const MAX_SILENCE_OF_MANY_MS = 250
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

interface Client {
  /** The client's address, as slots are shared out. */
  readonly subject: string
  /** Where the connections of that address are counted, if each has only a part. */
  readonly place: number
}

interface Admitted extends Client {
  /** Since when the connection could send a request. */
  readonly sinceMs: number
  /** Whether the slot is one of those for probes alone. */
  readonly isKept: boolean
}

/** The connections of one listener in one worker that have a slot. */
export class AdmittedConnections {
  readonly #limits: ConnectionLimits
  readonly #turnedAway = new TurnedAway()
  readonly #refusal: string | Uint8Array
  readonly #use: ConnectionUse
  /** The oldest first. Until its handshake is over, one that is being secured is here with its plain socket. */
  readonly #sockets = new Map<Socket, Admitted>()
  readonly #handshaking = new Set<Socket>()
  /** When the next pass may begin: over all, and over those of a client that has its part. */
  readonly #mayReclaimAtMs = { all: 0, own: 0 }

  /** `refusal` is sent to connections for which there is no slot, unless they have yet to be secured. */
  constructor(limits: ConnectionLimits, refusal: string | Uint8Array, use: ConnectionUse) {
    this.#limits = limits
    this.#refusal = refusal
    this.#use = use
  }

  sockets(): IterableIterator<Socket> {
    return this.#sockets.keys()
  }

  /** Whether the slot is one for probes alone. */
  isKept(socket: Socket): boolean {
    return this.#sockets.get(socket)?.isKept === true
  }

  /**
   * Calls `serve` once the connection has a slot and is secured, if it is to be, with the socket to be served; never if it has no slot.
   * A socket that was served before is served again at once.
   */
  admit(socket: Socket, serve: (socket: Socket) => void): void {
    if (this.#sockets.has(socket)) return serve(socket)
    const { shares, slots, onFull, security } = this.#limits
    const subject = addressSubject(socket.remoteAddress)
    const client = { subject, place: slots.reserved?.placeOf(subject) ?? 0 }
    const slot = this.#takeSlot(client)
    if (slot === undefined) {
      onFull()
      return this.#turnedAway.refuse(socket, security?.refusal ?? this.#refusal)
    }
    let current = socket
    const admitted = { ...client, isKept: slot === 'kept' }
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

  /**
   * Gives a connection that has a kept slot one that may ask for anything, and room is made for it: unlike half a request, a whole one is worth that.
   * If there is none, refuses the connection, and returns false.
   */
  promote(socket: Socket): boolean {
    const admitted = this.#sockets.get(socket)!
    // It must not make room for itself.
    this.#sockets.delete(socket)
    const isPromoted = this.#takeShared(admitted) || (this.#reclaim(admitted, 'shared') && this.#takeShared(admitted))
    this.#sockets.set(socket, { ...admitted, isKept: !isPromoted })
    if (isPromoted) this.#limits.slots.reserved!.kept.giveBack()
    else this.#refuse(socket)
    return isPromoted
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

  #takeSlot(client: Client): 'shared' | 'kept' | undefined {
    return this.#takeFree(client) ?? (this.#reclaim(client, 'any') ? this.#takeFree(client) : undefined)
  }

  /** Kept slots come before room is made: only a whole request is worth that, and most often it is here in a moment. */
  #takeFree(client: Client): 'shared' | 'kept' | undefined {
    if (this.#takeShared(client)) return 'shared'
    return this.#limits.slots.reserved?.kept.take() ? 'kept' : undefined
  }

  #takeShared({ place }: Client): boolean {
    const { slots } = this.#limits
    if (slots.reserved?.take(place) === false) return false
    if (slots.take()) return true
    slots.reserved?.giveBack(place)
    return false
  }

  #refuse(socket: Socket): void {
    this.#forget(socket)
    this.#limits.onFull()
    this.#turnedAway.refuse(socket, this.#refusal)
  }

  #forget(socket: Socket): void {
    const admitted = this.#sockets.get(socket)
    if (admitted === undefined) return
    this.#sockets.delete(socket)
    this.#handshaking.delete(socket)
    const { shares, slots } = this.#limits
    shares.closed()
    if (admitted.isKept) return slots.reserved?.kept.giveBack()
    slots.giveBack()
    slots.reserved?.giveBack(admitted.place)
  }

  /** Closes connections without a whole request that have slots which a client needs. Returns whether any such slot was freed. */
  #reclaim(client: Client, needed: 'shared' | 'any'): boolean {
    const hasPart = this.#limits.slots.reserved?.hasPart(client.place) === true
    const isUseful = ({ isKept, place }: Admitted): boolean => (isKept ? needed === 'any' : !hasPart || place === client.place)
    const scope = hasPart ? 'own' : 'all'
    const nowMs = performance.now()
    if (nowMs < this.#mayReclaimAtMs[scope]) return false
    const { size } = this.#sockets
    const enough = Math.ceil(size * CUT_PART)
    this.#use.closeIdle()
    this.cutSilent(MAX_SILENCE_MS)
    let freed = this.#forgetDestroyed(isUseful)
    if (freed === 0) {
      for (const socket of this.#half(nowMs, client.subject, isUseful).slice(0, enough)) socket.destroy()
      freed = this.#forgetDestroyed(isUseful)
    }
    // Each pass visits all connections. Unless it frees many, the delay until the next one keeps passes to about a tenth of the time.
    if (freed < enough) this.#mayReclaimAtMs[scope] = nowMs + size / 100
    return freed > 0
  }

  /** Destroyed sockets have freed their descriptors, but their 'close' events come later. Returns how many of them count. */
  #forgetDestroyed(isCounted: (admitted: Admitted) => boolean): number {
    let count = 0
    for (const [socket, admitted] of this.#sockets) {
      if (!socket.destroyed) continue
      this.#forget(socket)
      if (isCounted(admitted)) count++
    }
    return count
  }

  /**
   * Returns connections that have sent too little for a request, and that make room for one of `subject`: of the address that has most of them first,
   * and of each the oldest first. Newcomers of one address, such as many clients behind a NAT, do not cut one another before they could ask.
   */
  #half(nowMs: number, subject: string, isUseful: (admitted: Admitted) => boolean): Socket[] {
    const half: { readonly socket: Socket; readonly rank: number; readonly ageMs: number }[] = []
    const counts = new Map<string, number>()
    for (const [socket, admitted] of [...this.#sockets].reverse()) {
      if (!isUseful(admitted) || this.#use.isServing(socket)) continue
      const rank = counts.get(admitted.subject) ?? 0
      counts.set(admitted.subject, rank + 1)
      half.push({ socket, rank, ageMs: nowMs - admitted.sinceMs })
    }
    // Where slots are few, a hundred addresses have one each at most, and who comes next would never be served.
    const mostSpared = (counts.get(subject) ?? 0) - (this.#limits.slots.reserved === undefined ? 0 : 1)
    const cuttable = half.filter(({ rank, ageMs }) => rank > mostSpared || ageMs >= (rank > 0 ? MAX_SILENCE_OF_MANY_MS : MAX_SILENCE_MS))
    cuttable.reverse().sort((one, other) => other.rank - one.rank)
    return cuttable.map(({ socket }) => socket)
  }
}

/** Number of refused connections that are kept open at a time, so that the client surely gets the refusal. Beyond that, the oldest is cut. */
const MAX_LINGERING = 8
const LINGER_MS = 1000
/** What is read of one at most: dropping bodies at the speed at which a flood sends them would take all of the worker's time. */
const LINGER_BYTES = 64 * 1024

const BODY =
  '{"error":{"message":"The limit on open files allows no more connections.","type":"service_unavailable","code":"too_many_connections"}}'
export const NO_SLOT_OVER_HTTP =
  'HTTP/1.1 503 Service Unavailable\r\nX-Edge-Reason: too_many_connections\r\nRetry-After: 1\r\nContent-Type: application/json\r\n' +
  `Content-Length: ${BODY.length}\r\nConnection: close\r\n\r\n${BODY}`

/** Connections for which there is no slot. Each gets the same refusal, whatever it asks, and is closed. */
class TurnedAway {
  /** The oldest first. */
  readonly #lingering = new Set<Socket>()

  /** Reads and drops what the client sends: closing a socket with unread bytes resets the connection, and the client may never see the refusal. */
  refuse(socket: Socket, refusal: string | Uint8Array): void {
    socket.on('error', () => {}) // 'close' follows
    socket.end(refusal)
    const [oldest] = this.#lingering
    if (oldest !== undefined && this.#lingering.size >= MAX_LINGERING) {
      this.#lingering.delete(oldest)
      oldest.destroy()
    }
    this.#lingering.add(socket)
    const timer = setTimeout(() => socket.destroy(), LINGER_MS)
    socket.once('close', () => {
      this.#lingering.delete(socket)
      clearTimeout(timer)
    })
    let bytes = 0
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > LINGER_BYTES) socket.destroy()
    })
    socket.resume()
  }
}
