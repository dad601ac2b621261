import { backoffMs } from '../../time/clock.ts'

const FIRST_MS = 1000
const LONGEST_MS = 60_000
/** No backend may ask to be left alone for longer. */
export const LONGEST_WISH_MS = 600_000
/** Beyond this, further rounds change no time. */
const MAX_ROUNDS = 30

/** What a call to a backend failed with. A connection that breaks before the answer is a 5xx too: the client gets a 502. */
export type CoolingReason = 'connect' | 'timeout' | '5xx' | 429 | 401 | 402 | 403
export const COOLING_REASONS: readonly CoolingReason[] = ['connect', 'timeout', '5xx', 429, 401, 402, 403]

// Words of a record. Times are 64-bit floats, so they are at even indices.
const ROUNDS = 0
const REASON = 1
const PROBE = 2
const IS_WAITING = 3
const DEADLINE = 4
const COOLED_AT = 6
const PROBED_AT = 8
const SINCE = 10
export const COOLING_WORDS = 12

/** A probe's number has the number of its worker in the low bits, so that the probes of a dead worker can be found. */
const OWNER_BITS = 12
const SERIALS = 2 ** (31 - OWNER_BITS)

/**
 * How a backend, or one model of it, cools: a record in shared memory, at an even index. Its rounds are the failures since the last success that each
 * began after the one before had ended, so a hundred calls that fail together count once. Once it has cooled, only an answer to a call that began later
 * ends it. Until then it takes one probe at a time, even after its deadline. To be called with the lock of the slot.
 */
export class CoolingRecords {
  readonly #words: Int32Array
  readonly #floats: Float64Array

  constructor(words: Int32Array, floats: Float64Array) {
    this.#words = words
    this.#floats = floats
  }

  /** Whether it cools, or has cooled and nothing has succeeded since. */
  hasCooled(at: number): boolean {
    return this.#words[at + ROUNDS]! > 0
  }

  deadlineMs(at: number): number {
    return this.#floats[(at + DEADLINE) / 2]!
  }

  reason(at: number): CoolingReason {
    return COOLING_REASONS[this.#words[at + REASON]!]!
  }

  /** When the first round began. */
  sinceMs(at: number): number {
    return this.#floats[(at + SINCE) / 2]!
  }

  /** Whether a probe keeps others from trying. One whose client has not sent the whole request yet does not: nobody may hold the backend by sending slowly. */
  isProbed(at: number): boolean {
    return this.#words[at + PROBE] !== 0 && this.#words[at + IS_WAITING] === 0
  }

  /** Cools for as long as the backend asks, or twice as long as in the last round. A later deadline extends an earlier one, and never shortens it. */
  cool(at: number, reason: CoolingReason, wishMs: number | undefined, startedAtMs: number, nowMs: number): void {
    if (!this.hasCooled(at)) this.#floats[(at + SINCE) / 2] = nowMs
    if (!this.hasCooled(at) || this.isLater(at, startedAtMs)) {
      this.#addRound(at)
      this.#floats[(at + COOLED_AT) / 2] = nowMs
      this.#words[at + REASON] = COOLING_REASONS.indexOf(reason)
    }
    this.extend(at, nowMs + (wishMs === undefined ? this.#roundMs(at) : Math.min(wishMs, LONGEST_WISH_MS)))
  }

  extend(at: number, deadlineMs: number): void {
    this.#floats[(at + DEADLINE) / 2] = Math.max(this.deadlineMs(at), deadlineMs)
  }

  /** Ends the wait, but not the cooling: the next request is the probe. A probe that is without an answer keeps nobody from trying. */
  endWait(at: number, nowMs: number): void {
    this.#floats[(at + DEADLINE) / 2] = Math.min(this.deadlineMs(at), nowMs)
    this.#words[at + PROBE] = 0
  }

  /** Whether a call that began at this time says anything about the backend since it has cooled. */
  isLater(at: number, startedAtMs: number): boolean {
    return startedAtMs > this.#floats[(at + COOLED_AT) / 2]!
  }

  clear(at: number): void {
    this.#words.fill(0, at, at + COOLING_WORDS)
  }

  /**
   * Whether a request may be the probe: there is none, or it has been without an answer for too long to keep the next one from trying. That time doubles
   * with each of them, so a backend that hangs gets few.
   */
  canProbe(at: number, nowMs: number): boolean {
    return !this.isProbed(at) || nowMs - this.#floats[(at + PROBED_AT) / 2]! >= this.#roundMs(at)
  }

  beginProbe(at: number, probe: number, nowMs: number): void {
    if (this.isProbed(at)) this.#addRound(at)
    this.#words[at + PROBE] = probe
    this.#words[at + IS_WAITING] = 0
    this.#floats[(at + PROBED_AT) / 2] = nowMs
  }

  /** `isWaiting`: the probe waits for its client, not for the backend. Like `endProbe`, it has no effect if another request has become the probe. */
  noteProbe(at: number, probe: number, isWaiting: boolean, nowMs: number): void {
    if (this.#words[at + PROBE] !== probe) return
    this.#words[at + IS_WAITING] = isWaiting ? 1 : 0
    this.#floats[(at + PROBED_AT) / 2] = nowMs
  }

  endProbe(at: number, probe: number): void {
    if (this.#words[at + PROBE] === probe) this.#words[at + PROBE] = 0
  }

  #addRound(at: number): void {
    this.#words[at + ROUNDS] = Math.min(this.#words[at + ROUNDS]! + 1, MAX_ROUNDS)
  }

  #roundMs(at: number): number {
    return backoffMs(FIRST_MS, LONGEST_MS, this.#words[at + ROUNDS]!)
  }
}

/** Returns the number of a worker's next probe, given that of its last one. */
export function nextProbe(owner: number, last: number): number {
  return ((((last >>> OWNER_BITS) + 1) % SERIALS) << OWNER_BITS) | owner
}

/** Frees the record for another probe if the one under way was a dead worker's. */
export function freeProbesOf(words: Int32Array, at: number, owner: number): void {
  const probe = Atomics.load(words, at + PROBE)
  if ((probe & (2 ** OWNER_BITS - 1)) === owner) Atomics.compareExchange(words, at + PROBE, probe, 0)
}
