import { algorithmOf } from '../../../limiter/algorithms/algorithms.ts'
import type { BucketLimit } from '../../../limiter/limit.ts'
import type { ChargeResults, Charges } from '../../charges.ts'
import type { EmbeddedStore } from '../../table/embedded-store.ts'
import type { TableRows } from '../../table/table-rows.ts'
import type { FleetCounter } from '../fleet-counter.ts'
import { KeyLeases } from './key-leases.ts'
import { isRunningOut, tokensToLease } from './lease-returns.ts'

/**
 * How leases answer for a row: a lease covers it; Redis refused it a short time ago; no lease covers it, but one could; or it is never
 * leased.
 */
export type Coverage = typeof COVERED | typeof REFUSED | typeof UNCOVERED | typeof UNLEASED

export const COVERED = 0
export const REFUSED = 1
export const UNCOVERED = 2
const UNLEASED = 3

/**
 * Checks and takes the leases of one question, under the locks of all its rows. The object is reused for one question after another, so
 * that none of them allocates: its fields must be read before the next one.
 */
export class LeaseRows {
  /** Whether leases are no longer asked for. */
  isClosed = false
  coverages = new Uint8Array(0)
  /** Tokens that the row's recent use calls for, and tokens to lease, which is 0 while the key has a note that a lease was asked for. */
  wants = new Float64Array(0)
  asks = new Float64Array(0)
  /** Whether there may be tokens to lease. */
  hasAsks = false
  /** For rows that take nothing: tokens that are leased here, which count as left when a counter is inspected. */
  lefts = new Float64Array(0)
  /** Tag and end of the block that the row's token was taken from. */
  blockLows = new Int32Array(0)
  endsMs = new Float64Array(0)
  /** Positions of the keys in the table. */
  readonly located: TableRows
  /** Leases of the key of each row. */
  readonly #keys: KeyLeases[] = []
  readonly #wallMs: () => number
  readonly #local: EmbeddedStore
  readonly #leaseMs: number

  constructor(local: EmbeddedStore, leaseMs: number, wallMs: () => number) {
    this.located = local.newRows()
    this.#wallMs = wallMs
    this.#local = local
    this.#leaseMs = leaseMs
  }

  /**
   * Takes a token for each row that a lease covers, unless another row is refused; if `takes` is false, only checks. Writes levels and
   * waits to `results`. Returns REFUSED if any row is refused, COVERED if all rows are covered, else UNCOVERED.
   */
  ask(takes: boolean, charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): Coverage {
    const rows = this.located
    rows.locate(charges, wallMs)
    if (rows.length > this.#keys.length) this.#growTo(rows.length)
    rows.lock()
    const coverage = this.#readAll(takes, charges, results, nowMs)
    if (takes && coverage !== REFUSED) {
      this.#takeHeld(rows.length, coverage)
      // This may claim slots that were read above, so their indexes must not be used from here on.
      if (this.hasAsks) this.#noteAsked(charges, nowMs)
    }
    rows.unlock()
    return coverage
  }

  #readAll(takes: boolean, charges: Charges, results: ChargeResults, nowMs: number): Coverage {
    let all: Coverage = COVERED
    this.hasAsks = false
    for (let row = 0; row < charges.length; row++) {
      const counter = charges.counters[row] as FleetCounter
      this.asks[row] = 0
      results.waitsMs[row] = 0
      const isLeased = counter.isLeasable && charges.costs[row] === 1
      if (!isLeased) results.levels[row] = algorithmOf(counter.limit).size(counter.limit)
      this.lefts[row] = counter.isLeasable && charges.costs[row] === 0 ? this.#leftOf(row, counter, nowMs) : 0
      const coverage = isLeased ? this.#readRow(row, takes, counter, results, nowMs) : UNLEASED
      this.coverages[row] = coverage
      if (coverage === REFUSED) all = REFUSED
      else if (coverage !== COVERED && all !== REFUSED) all = UNCOVERED
    }
    return all
  }

  #readRow(row: number, takes: boolean, counter: FleetCounter, results: ChargeResults, nowMs: number): Coverage {
    const leases = this.#keyOf(row, counter)
    const { tokensPerMs, burst } = counter.limit as BucketLimit
    leases.read(nowMs)
    if (leases.from >= 0) {
      if (takes) leases.left--
      results.levels[row] = Math.min(leases.left + leases.seen, burst)
      if (takes && leases.isLow && !this.isClosed) this.#ask(row, this.#askAhead(leases, nowMs))
      return COVERED
    }
    results.levels[row] = Math.min(leases.seen, burst)
    const note = leases.readNote(nowMs)
    if (note === 'refused') {
      const waitMs = leases.namedUntilMs - nowMs
      results.waitsMs[row] = waitMs
      results.levels[row] = Math.max(0, 1 - waitMs * tokensPerMs)
      return REFUSED
    }
    leases.measure(nowMs)
    const want = tokensToLease(leases.used, leases.elapsedMs, this.#leaseMs)
    this.wants[row] = want
    if (takes && note === 'none' && !this.isClosed) this.#ask(row, want)
    return UNCOVERED
  }

  #ask(row: number, tokens: number): void {
    if (tokens === 0) return
    this.wants[row] = tokens
    this.asks[row] = tokens
    this.hasAsks = true
  }

  #leftOf(row: number, counter: FleetCounter, nowMs: number): number {
    const leases = this.#keyOf(row, counter)
    leases.read(nowMs)
    return leases.left
  }

  /** Returns how many tokens to lease before those held are used up, or 0 if it is too early. */
  #askAhead(leases: KeyLeases, nowMs: number): number {
    leases.measure(nowMs)
    const { left, used, elapsedMs } = leases
    return isRunningOut(left, used, elapsedMs, this.#leaseMs) ? tokensToLease(used, elapsedMs, this.#leaseMs) : 0
  }

  #takeHeld(count: number, coverage: Coverage): void {
    const { table } = this.#local
    for (let row = 0; row < count; row++) {
      if (this.coverages[row] !== COVERED) continue
      const slot = this.#keys[row]!.from
      table.takeFrom(slot, 1)
      // If all rows are covered, no token is put back.
      if (coverage === COVERED) continue
      this.blockLows[row] = table.low(slot)
      this.endsMs[row] = table.at(slot)
    }
  }

  /** Allows one renewal at a time for each key: a thread that finds the note does not ask. The note expires, in case this thread dies. */
  #noteAsked(charges: Charges, nowMs: number): void {
    const { asks } = this
    for (let row = 0; row < charges.length; row++) {
      if (asks[row] === 0) continue
      const leases = this.#keys[row]!
      if (leases.readNote(nowMs) !== 'none' || !leases.noteAsked(nowMs + this.#leaseMs, nowMs)) asks[row] = 0
    }
  }

  #keyOf(row: number, { leaseSalt, rule }: FleetCounter): KeyLeases {
    const { sets, lows, highs } = this.located
    const leases = this.#keys[row]!
    leases.locate(sets[row]!, lows[row]!, highs[row]!, leaseSalt, rule)
    return leases
  }

  #growTo(rows: number): void {
    const size = Math.max(16, rows * 2)
    this.coverages = new Uint8Array(size)
    this.wants = new Float64Array(size)
    this.asks = new Float64Array(size)
    this.lefts = new Float64Array(size)
    this.blockLows = new Int32Array(size)
    this.endsMs = new Float64Array(size)
    while (this.#keys.length < size) this.#keys.push(new KeyLeases(this.#local.table, this.#leaseMs, this.#wallMs))
  }
}
