import { TimeShare } from '../time/slices.ts'

/** Handshakes of a worker at a time. Each holds some 55 KiB, and is answered with a signature, so a crowd must not begin all at once. */
const MAX_RUNNING = 500
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

  /** Must be called when a handshake is over, or its connection closed while it waited. */
  leave(handshake: PendingHandshake): void {
    this.#waiting.delete(handshake)
    if (this.#running.delete(handshake) && this.#waiting.size > 0) this.#look()
  }

  #mayBegin(nowMs: number): boolean {
    return this.#running.size < this.#maxRunning && this.#share.waitMs(nowMs) === 0
  }

  #begin(handshake: PendingHandshake, nowMs: number): void {
    this.#running.set(handshake, nowMs)
    this.#share.spend(this.costMs, nowMs)
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
