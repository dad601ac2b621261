import { TimeShare } from '../time/slices.ts'

/** Handshakes of a worker at a time. Each holds some 55 KiB, and is answered with a signature, so a crowd must not begin all at once. */
const MAX_RUNNING = 500
/** Where clients must have certificates: each can make OpenSSL check a long chain at a moment of its choice, so that fewer may wait for that moment. */
const MAX_RUNNING_WITH_CHAINS = 50
/** What clients send in a handshake with a chain of two or three certificates. */
const USUAL_BYTES = 8192
/** For what comes beyond: certificates of P-521, the dearest kind, take 7 ms for each KiB. */
const CHAIN_MS_PER_KIB = 7
/** While others wait, a handshake that takes longer than this loses its place to them. */
const PATIENCE_MS = 5000
/** What handshakes may take of the worker's time, so that open connections are still served in a flood of new ones. */
const SHARE = 0.6
const BURST_MS = 100

/** A connection that has a slot and is to be secured. */
export interface PendingHandshake {
  /** Reads from the connection from now on. */
  begin(): void
  /** Keeps what the client sends in the system's memory until its turn comes. */
  hold(): void
  /** Ends the connection, because it has taken too long while others wait. */
  cut(): void
}

/** Bounds what the handshakes of all listeners of a worker take at a time: of memory by their number, of CPU time by a share. */
export class HandshakePlaces {
  readonly #running = new Map<PendingHandshake, number>()
  readonly #waiting = new Set<PendingHandshake>()
  readonly #share: TimeShare
  readonly #maxRunning: number
  readonly #nowMs: () => number
  #timer: NodeJS.Timeout | undefined
  /** What one handshake takes of this thread, about. A connection has one at most, because renegotiation is refused. */
  costMs = 1

  /** For clients that need certificates, or not. */
  static forClients(requiresCertificates: boolean): HandshakePlaces {
    return new HandshakePlaces(requiresCertificates ? MAX_RUNNING_WITH_CHAINS : MAX_RUNNING)
  }

  constructor(maxRunning = MAX_RUNNING, nowMs = () => performance.now()) {
    this.#maxRunning = maxRunning
    this.#nowMs = nowMs
    this.#share = new TimeShare(SHARE, BURST_MS, nowMs())
  }

  /** Begins a handshake, now or when it is its turn. */
  enter(handshake: PendingHandshake): void {
    const nowMs = this.#nowMs()
    if (this.#waiting.size === 0 && this.#mayBegin(nowMs)) return this.#begin(handshake, nowMs)
    handshake.hold()
    this.#waiting.add(handshake)
    this.#lookLater(nowMs)
  }

  /** Must be called when a handshake is over, with what the client has sent for it, or when its connection closed while it waited. */
  leave(handshake: PendingHandshake, sentBytes: number): void {
    this.#waiting.delete(handshake)
    if (!this.#running.delete(handshake)) return
    const chainKib = (sentBytes - USUAL_BYTES) / 1024
    if (chainKib > 0) this.#share.take(chainKib * CHAIN_MS_PER_KIB, this.#nowMs())
    if (this.#waiting.size > 0) this.#look()
  }

  #mayBegin(nowMs: number): boolean {
    return this.#running.size < this.#maxRunning && this.#share.waitMs(nowMs) === 0
  }

  #begin(handshake: PendingHandshake, nowMs: number): void {
    this.#running.set(handshake, nowMs)
    this.#share.take(this.costMs, nowMs)
    handshake.begin()
  }

  #look(): void {
    const nowMs = this.#nowMs()
    if (this.#running.size >= this.#maxRunning) this.#cutOldest(nowMs)
    for (const handshake of this.#waiting) {
      if (!this.#mayBegin(nowMs)) return this.#lookLater(nowMs)
      this.#waiting.delete(handshake)
      this.#begin(handshake, nowMs)
    }
  }

  /** The map is in the order in which handshakes began. */
  #cutOldest(nowMs: number): void {
    for (const [handshake, sinceMs] of this.#running) {
      if (nowMs - sinceMs < PATIENCE_MS || this.#running.size < this.#maxRunning) return
      this.#running.delete(handshake)
      handshake.cut()
    }
  }

  #lookLater(nowMs: number): void {
    if (this.#timer !== undefined) return
    const [oldestMs = nowMs] = this.#running.values()
    const placeMs = this.#running.size < this.#maxRunning ? 0 : Math.max(0, oldestMs + PATIENCE_MS - nowMs)
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined
        this.#look()
      },
      Math.max(1, placeMs, this.#share.waitMs(nowMs)),
    ).unref()
  }
}
