import { ByAddress } from '../listen/by-address.ts'
import { TimeShare } from '../time/slices.ts'

/** What the handshakes of some listeners of a worker may take. */
export interface PlacesOptions {
  /** Handshakes at a time. */
  readonly maxRunning: number
  /** Part of the worker's time. */
  readonly share: number
  /** How often the event loop turns between two handshakes. */
  readonly turnsBetween?: number
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
/**
 * Node accepts one connection each turn of the event loop. With a handshake in each, a flood would wait in the system's queue, where nobody can tell a
 * newcomer from it, and which turns newcomers away when it is full; so connections are accepted several times as fast as handshakes begin.
 */
const TURNS_BETWEEN = 8
/** Turns that are long, because open connections are busy, are not waited for. */
const LONGEST_BETWEEN_MS = 5
/** Addresses that have more than one wait behind those that have not, but for one handshake of so many. */
const OTHERS_EVERY = 4
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
  /** Those that came when their address had no other: with them a newcomer does not wait for a round of all addresses that have more than one. */
  readonly #first = new ByAddress<PendingHandshake>()
  readonly #others = new ByAddress<PendingHandshake>()
  #begun = 0
  readonly #share: TimeShare
  readonly #maxRunning: number
  readonly #turnsBetween: number
  readonly #nowMs: () => number
  #isBetween = false
  #timer: NodeJS.Timeout | undefined
  /** What one handshake takes of this thread, about. A connection has one at most, because renegotiation is refused. */
  costMs = 1

  /** For clients that need certificates, or not. */
  static forClients(requiresCertificates: boolean): HandshakePlaces {
    return new HandshakePlaces({
      maxRunning: requiresCertificates ? MAX_RUNNING_WITH_CHAINS : MAX_RUNNING,
      share: SHARE,
      turnsBetween: TURNS_BETWEEN,
    })
  }

  static forOperators(): HandshakePlaces {
    return new HandshakePlaces({ maxRunning: MAX_RUNNING_OF_OPERATORS, share: SHARE_OF_OPERATORS, turnsBetween: TURNS_BETWEEN })
  }

  constructor({ maxRunning, share, turnsBetween = 0, nowMs = () => performance.now() }: PlacesOptions) {
    this.#maxRunning = maxRunning
    this.#turnsBetween = turnsBetween
    this.#nowMs = nowMs
    this.#share = new TimeShare(share, BURST_MS, nowMs())
  }

  /** Begins a handshake, now or when it is its turn. */
  enter(handshake: PendingHandshake): void {
    const { address } = handshake
    const nowMs = this.#nowMs()
    const isFree = this.#running.size < this.#maxRunning && !this.#isBetween && this.#share.waitMs(nowMs) === 0
    if (this.#waiting === 0 && isFree) return this.#begin(handshake, nowMs)
    const isFull = this.#others.countOf(address) * this.#others.addresses >= MAX_WAITING
    if (isFull || handshake.heldBytes > MAX_HELD_BYTES) return handshake.cut()
    handshake.hold()
    const isFirst = this.#first.countOf(address) + this.#others.countOf(address) + this.#runningByAddress.countOf(address) === 0
    ;(isFirst ? this.#first : this.#others).add(address, handshake)
    if (!this.#isBetween) this.#lookLater(nowMs)
  }

  /** Must be called when a handshake is over, with what the client has sent for it, or when its connection closed while it waited. */
  leave(handshake: PendingHandshake, sentBytes: number): void {
    this.#stopWaiting(handshake)
    if (!this.#end(handshake)) return
    const chainKib = (sentBytes - USUAL_BYTES) / 1024
    if (chainKib > 0) this.#share.take(chainKib * CHAIN_MS_PER_KIB, this.#nowMs())
    if (this.#waiting > 0) this.#look()
  }

  get #waiting(): number {
    return this.#first.size + this.#others.size
  }

  #stopWaiting(handshake: PendingHandshake): void {
    if (!this.#first.delete(handshake.address, handshake)) this.#others.delete(handshake.address, handshake)
  }

  #begin(handshake: PendingHandshake, nowMs: number): void {
    this.#running.set(handshake, nowMs)
    this.#runningByAddress.add(handshake.address, handshake)
    this.#share.take(this.costMs, nowMs)
    this.#begun++
    handshake.begin()
    if (this.#turnsBetween > 0) {
      this.#isBetween = true
      this.#turn(this.#turnsBetween, nowMs + LONGEST_BETWEEN_MS)
    }
  }

  #turn(left: number, untilMs: number): void {
    setImmediate(() => {
      if (left > 1 && this.#nowMs() < untilMs) return this.#turn(left - 1, untilMs)
      this.#isBetween = false
      if (this.#waiting > 0) this.#look()
    })
  }

  #end(handshake: PendingHandshake): boolean {
    this.#runningByAddress.delete(handshake.address, handshake)
    return this.#running.delete(handshake)
  }

  #look(): void {
    const nowMs = this.#nowMs()
    const isTurnOfOthers = this.#begun % OTHERS_EVERY === 0
    for (const waiting of isTurnOfOthers ? [this.#others, this.#first] : [this.#first, this.#others]) this.#beginSome(waiting, nowMs)
    if (this.#waiting > 0 && !this.#isBetween) this.#lookLater(nowMs)
  }

  #beginSome(waiting: ByAddress<PendingHandshake>, nowMs: number): void {
    let victim: Victim | undefined
    for (const handshake of waiting.inTurn()) {
      if (this.#isBetween || this.#share.waitMs(nowMs) > 0) break
      if (this.#running.size >= this.#maxRunning) {
        victim ??= this.#victim(nowMs)
        if (victim === undefined) break
        // An address that has its part gets no other one's place, but another address may.
        if (!victim.isOverdue && victim.count <= this.#runningByAddress.countOf(handshake.address) + 1) continue
        this.#end(victim.handshake)
        victim.handshake.cut()
        victim = undefined
      }
      this.#stopWaiting(handshake)
      this.#begin(handshake, nowMs)
    }
  }

  #victim(nowMs: number): Victim | undefined {
    const most = this.#runningByAddress.most()
    const addresses = Math.max(this.#first.addresses, this.#others.addresses)
    const patienceMs = Math.max(LEAST_PATIENCE_MS, PATIENCE_MS * Math.min(1, this.#maxRunning / addresses))
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
