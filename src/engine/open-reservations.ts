import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import type { PlanCounter } from '../policy/algorithms/compiled-rule.ts'
import type { Taken } from '../store/charges.ts'
import { HalfSipHash, type HashState, SubjectWords } from '../store/subject.ts'
import type { Clock } from '../time/clock.ts'
import type { ReservedCharge } from './reservation.ts'
import type { ReservedPart } from './reserved-parts.ts'

/** Cells in each of a lane's two rows. */
const SLOTS = 4096
const LANE_CELLS = 2 * SLOTS
/** Cells before the lanes, which hold the average duration of requests by rule. */
const TIMES = 1024

/** The wait that clients are given for requests in flight: the default if no duration is known, and the bounds. */
const UNKNOWN_MS = 5000
const MIN_MS = 1000
const MAX_MS = 10_000
/** Weight of one more request in the moving average. */
const WEIGHT = 1 / 8

export interface OpenReservationsParts {
  readonly memory: SharedArrayBuffer
  /** Workers count from 1. */
  readonly worker: number
  readonly hashKey: readonly [number, number]
  readonly clock: Clock
}

/**
 * The amounts that requests in flight have reserved in windows, over all threads of this process, and how long such requests take. A store knows only what
 * is left.
 *
 * Sums are kept in shared memory of a fixed size, without keys: a subject has a cell in each of two rows, and the smaller one counts, so a sum is too large
 * only if others share both cells. Each worker writes only its own lane, without locks, and reads all lanes.
 */
export class OpenReservations {
  readonly #times: Float64Array
  readonly #lanes: Float64Array
  readonly #own: number
  readonly #clock: Clock
  readonly #hash: HalfSipHash
  readonly #subject = new SubjectWords()
  readonly #prefixes = new WeakMap<PlanCounter, Prefix>()

  constructor({ memory, worker, hashKey, clock }: OpenReservationsParts) {
    this.#times = new Float64Array(memory, 0, TIMES)
    this.#lanes = lanesOf(memory)
    this.#own = laneOf(worker)
    this.#clock = clock
    this.#hash = new HalfSipHash(hashKey)
  }

  /** Adds reservations, from index `from` on, when they have been taken. `close` must be called for each of them when it is settled. */
  open(charges: readonly ReservedCharge[], from: number): void {
    for (let i = from; i < charges.length; i++) this.#add(charges[i]!, charges[i]!.taken, charges[i]!.amount)
  }

  /** Adds a part that a reservation has grown by. */
  openPart(charge: ReservedCharge, { amount, taken }: ReservedPart): void {
    this.#add(charge, taken, amount)
  }

  /** Removes a part that is not settled with its reservation. */
  closePart(charge: ReservedCharge, { amount, taken }: ReservedPart): void {
    this.#add(charge, taken, -amount)
  }

  close(charge: ReservedCharge): void {
    const { amount, taken, growth } = charge
    const counter = this.#add(charge, taken, growth === undefined ? -amount : 0)
    if (growth !== undefined) for (const part of growth.all) this.closePart(charge, part)
    if (counter === undefined) return
    const { timeCell } = this.#prefixOf(counter)
    const tookMs = Math.max(1, this.#clock.nowMs() - charge.sinceMs)
    const knownMs = this.#times[timeCell]!
    // If two threads write at once, one of the two durations is lost from the average.
    this.#times[timeCell] = knownMs === 0 ? tookMs : knownMs + (tookMs - knownMs) * WEIGHT
  }

  /** Returns what is reserved in the counter's window at `wallMs`. The subject's values are those at indexes `from` up to `to`. */
  sumOf(counter: PlanCounter, values: readonly string[], from: number, to: number, wallMs: number): number {
    return this.sumAt(this.cellsOf(counter, values, from, to, wallMs))
  }

  /** Returns where the sum of a subject is kept, for code that asks for it later without the subject's values. */
  cellsOf(counter: PlanCounter, values: readonly string[], from: number, to: number, wallMs: number): ReservedCells {
    this.#digest(counter, values, from, to, wallMs)
    return { low: lowCell(this.#hash), high: highCell(this.#hash) }
  }

  sumAt({ low, high }: ReservedCells): number {
    let lowSum = 0
    let highSum = 0
    for (let lane = 0; lane < this.#lanes.length; lane += LANE_CELLS) {
      lowSum += this.#lanes[lane + low]!
      highSum += this.#lanes[lane + high]!
    }
    return Math.min(lowSum, highSum)
  }

  /** Returns how long a request of the counter's rule usually takes: by then, some of what is reserved should have been given back. */
  waitMs(counter: PlanCounter): number {
    const knownMs = this.#times[this.#prefixOf(counter).timeCell]!
    return knownMs === 0 ? UNKNOWN_MS : Math.min(Math.max(MIN_MS, knownMs), MAX_MS)
  }

  /** Returns the counter that the amount was added for, if there is one. */
  #add({ rule, values }: ReservedCharge, taken: Taken, amount: number): PlanCounter | undefined {
    const counter = taken.from === 'none' ? undefined : rule.counters.find(isAwaited)
    if (counter === undefined) return undefined
    this.#digest(counter, values, 0, values.length, taken.wallMs)
    this.#lanes[this.#own + lowCell(this.#hash)]! += amount
    this.#lanes[this.#own + highCell(this.#hash)]! += amount
    return counter
  }

  #digest(counter: PlanCounter, values: readonly string[], from: number, to: number, wallMs: number): void {
    const subject = this.#subject
    subject.clear()
    for (let i = from; i < to; i++) subject.addText(values[i]!)
    subject.addWord(algorithmOf(counter.limit).windowAt(counter.limit, wallMs) | 0)
    this.#hash.digest(subject.words, subject.length, this.#prefixOf(counter).state)
  }

  #prefixOf(counter: PlanCounter): Prefix {
    let prefix = this.#prefixes.get(counter)
    if (prefix === undefined) {
      const subject = new SubjectWords()
      subject.addIdentity(counter.identity)
      this.#hash.digest(subject.words, subject.length)
      const timeCell = (this.#hash.low >>> 0) % TIMES
      prefix = { state: this.#hash.absorb(subject.words, subject.length), timeCell }
      this.#prefixes.set(counter, prefix)
    }
    return prefix
  }
}

/** The two cells of a subject, in every lane. */
export interface ReservedCells {
  readonly low: number
  readonly high: number
}

/** Whether what is reserved may be given back long before the window ends. This holds for at most one of a rule's counters. */
export function isAwaited({ isSettled, limit }: PlanCounter): boolean {
  return isSettled && algorithmOf(limit).hasWindows
}

export function newOpenReservationsBuffer(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer((TIMES + workers * LANE_CELLS) * 8)
}

/** Clears a dead worker's lane. Nobody will settle its open reservations, so their amounts stay taken. */
export function forgetOpenReservations(memory: SharedArrayBuffer, worker: number): void {
  lanesOf(memory).fill(0, laneOf(worker), laneOf(worker) + LANE_CELLS)
}

/** Hash state that all hashes of a counter start from, and the cell of its rule's average duration. */
interface Prefix {
  readonly state: HashState
  readonly timeCell: number
}

function lanesOf(memory: SharedArrayBuffer): Float64Array {
  return new Float64Array(memory, TIMES * 8)
}

function laneOf(worker: number): number {
  return (worker - 1) * LANE_CELLS
}

function lowCell({ low }: HalfSipHash): number {
  return (low >>> 0) % SLOTS
}

function highCell({ high }: HalfSipHash): number {
  return SLOTS + ((high >>> 0) % SLOTS)
}
