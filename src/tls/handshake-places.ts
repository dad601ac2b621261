import { ByAddress } from '../listen/by-address.ts'
import { TimeShare } from '../time/slices.ts'

/** What the handshakes of some listeners of a worker may take. */
export interface PlacesOptions {
  /** Handshakes at a time. */
  readonly maxRunning: number
  /** Part of the worker's time. */
  readonly share: number
  readonly nowMs?: () => number
}

/** Each handshake holds some 55 KiB, and is answered with a signature, so a crowd must not begin all at once. */
const MAX_RUNNING = 500
/** Where clients must have certificates: each can make OpenSSL check a long chain at a moment of its choice, so that fewer may wait for that moment. */
const MAX_RUNNING_WITH_CHAINS = 50
/** So that open connections are still served in a flood of new ones. */
const SHARE = 0.6
const BURST_MS = 100
/** The operators' listener has places and time of its own, or a flood of clients would stop its probes. */
const MAX_RUNNING_OF_OPERATORS = 50
const SHARE_OF_OPERATORS = 0.2

/** What clients send in a handshake with a chain of two or three certificates. */
const USUAL_BYTES = 8192
/** For what comes beyond: certificates of P-521, the dearest kind, take 7 ms for each KiB. */
const CHAIN_MS_PER_KIB = 7

/** While others wait, a handshake may take this long; less if more addresses wait than there are places, so that each of them has its turn within about a second. */
const PATIENCE_MS = 1000
/** Any handshake may take this long: more than a round trip to the other side of the world. */
const LEAST_PATIENCE_MS = 250
/** How often it is looked whether a handshake has taken too long. */
const LOOK_MS = 50
/** About as many may wait, shared out by address. */
const MAX_WAITING = 4000

/** A ClientHello is one record, of 16 KiB at most. A client that has sent more before it is answered is not kept waiting, nor are its bytes. */
const MAX_HELD_BYTES = 17 * 1024

/** A connection that is to be secured, and whose first bytes are there. */
export interface PendingHandshake {
  readonly address: string | undefined
  /** What has been read of the connection, and is held until its turn comes. */
  readonly heldBytes: number
  /** Reads from the connection from now on. */
  begin(): void
  /** Keeps what else the client sends in the system's memory until its turn comes. */
  hold(): void
  /** Ends the connection, because others need its place. */
  cut(): void
}

/**
 * Bounds what the handshakes of a worker take at a time: of memory by their number, of CPU time by a share. Addresses wait for their turn, not
 * handshakes, and when all places are taken, the oldest handshake of the address that has most makes room for an address that has less.
 */
export class HandshakePlaces {
  /** All that run, the oldest first, with the time when each began. */
  readonly #running = new Map<PendingHandshake, number>()
  readonly #runningByAddress = new ByAddress<PendingHandshake>()
  readonly #waiting = new ByAddress<PendingHandshake>()
  readonly #share: TimeShare
  readonly #maxRunning: number
  readonly #nowMs: () => number
  #timer: NodeJS.Timeout | undefined
  /** What one handshake takes of this thread, about. A connection has one at most, because renegotiation is refused. */
  costMs = 1

  /** For clients that need certificates, or not. */
  static forClients(requiresCertificates: boolean): HandshakePlaces {
    return new HandshakePlaces({ maxRunning: requiresCertificates ? MAX_RUNNING_WITH_CHAINS : MAX_RUNNING, share: SHARE })
  }

  static forOperators(): HandshakePlaces {
    return new HandshakePlaces({ maxRunning: MAX_RUNNING_OF_OPERATORS, share: SHARE_OF_OPERATORS })
  }

  constructor({ maxRunning, share, nowMs = () => performance.now() }: PlacesOptions) {
    this.#maxRunning = maxRunning
    this.#nowMs = nowMs
    this.#share = new TimeShare(share, BURST_MS, nowMs())
  }

  /** Begins a handshake, now or when it is its turn. */
  enter(handshake: PendingHandshake): void {
    const { address } = handshake
    const nowMs = this.#nowMs()
    const isFree = this.#running.size < this.#maxRunning && this.#share.waitMs(nowMs) === 0
    if (this.#waiting.size === 0 && isFree) return this.#begin(handshake, nowMs)
    const isFull = this.#waiting.countOf(address) * this.#waiting.addresses >= MAX_WAITING
    if (isFull || handshake.heldBytes > MAX_HELD_BYTES) return handshake.cut()
    handshake.hold()
    this.#waiting.add(address, handshake)
    this.#lookLater(nowMs)
  }

  /** Must be called when a handshake is over, with what the client has sent for it, or when its connection closed while it waited. */
  leave(handshake: PendingHandshake, sentBytes: number): void {
    this.#waiting.delete(handshake.address, handshake)
    if (!this.#end(handshake)) return
    const chainKib = (sentBytes - USUAL_BYTES) / 1024
    if (chainKib > 0) this.#share.take(chainKib * CHAIN_MS_PER_KIB, this.#nowMs())
    if (this.#waiting.size > 0) this.#look()
  }

  #begin(handshake: PendingHandshake, nowMs: number): void {
    this.#running.set(handshake, nowMs)
    this.#runningByAddress.add(handshake.address, handshake)
    this.#share.take(this.costMs, nowMs)
    handshake.begin()
  }

  #end(handshake: PendingHandshake): boolean {
    this.#runningByAddress.delete(handshake.address, handshake)
    return this.#running.delete(handshake)
  }

  #look(): void {
    const nowMs = this.#nowMs()
    let victim: Victim | undefined
    for (const handshake of this.#waiting.inTurn()) {
      if (this.#share.waitMs(nowMs) > 0) break
      if (this.#running.size >= this.#maxRunning) {
        victim ??= this.#victim(nowMs)
        if (victim === undefined) break
        // An address that has its part gets no other one's place, but another address may.
        if (!victim.isOverdue && victim.count <= this.#runningByAddress.countOf(handshake.address) + 1) continue
        this.#end(victim.handshake)
        victim.handshake.cut()
        victim = undefined
      }
      this.#waiting.delete(handshake.address, handshake)
      this.#begin(handshake, nowMs)
    }
    if (this.#waiting.size > 0) this.#lookLater(nowMs)
  }

  #victim(nowMs: number): Victim | undefined {
    const most = this.#runningByAddress.most()
    const patienceMs = Math.max(LEAST_PATIENCE_MS, PATIENCE_MS * Math.min(1, this.#maxRunning / this.#waiting.addresses))
    const [oldestOfMost] = most
    if (oldestOfMost !== undefined && most.size > 1) {
      const ageMs = nowMs - this.#running.get(oldestOfMost)!
      if (ageMs >= LEAST_PATIENCE_MS) return { handshake: oldestOfMost, count: most.size, isOverdue: ageMs >= patienceMs }
    }
    const [oldest] = this.#running
    if (oldest === undefined || nowMs - oldest[1] < patienceMs) return undefined
    return { handshake: oldest[0], count: 1, isOverdue: true }
  }

  #lookLater(nowMs: number): void {
    if (this.#timer !== undefined) return
    const isFull = this.#running.size >= this.#maxRunning
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined
        // What has arrived while this thread was busy is read first, so that no client is cut whose bytes are there.
        setImmediate(() => this.#look())
      },
      Math.max(1, isFull ? LOOK_MS : 0, this.#share.waitMs(nowMs)),
    ).unref()
  }
}

/** The handshake that makes room next. */
interface Victim {
  readonly handshake: PendingHandshake
  /** How many its address has. */
  readonly count: number
  /** If it is not, it only makes room for an address that has fewer. */
  readonly isOverdue: boolean
}
