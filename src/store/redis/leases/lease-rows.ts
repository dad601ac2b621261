import { algorithmOf } from '../../../limiter/algorithms/algorithms.ts'
import type { BucketLimit } from '../../../limiter/limit.ts'
import { Answers } from '../../answers.ts'
import type { Charges } from '../../charges.ts'
import type { EmbeddedStore } from '../../embedded-store.ts'
import type { TableRows } from '../../table-rows.ts'
import type { FleetCounter } from '../fleet-counter.ts'
import { LeaseRecords } from './lease-records.ts'
import { isRunningOut, tokensToLease } from './lease-sizing.ts'

/** How rows stand: leases cover them, one was refused and still is, a lease is wanted, or there can be none. */
export type Standing = typeof HELD | typeof REFUSED | typeof DRY | typeof UNLEASED

export const HELD = 0
export const REFUSED = 1
export const DRY = 2
const UNLEASED = 3

/** What the leases in the table have for the charges at hand: looked at and taken in one go, under the locks of all rows. */
export class LeaseRows {
  readonly records: LeaseRecords
  /** Nothing more is to be leased. */
  isClosed = false
  standings = new Uint8Array(0)
  /** How many tokens the row could do with, and how many are to be leased: none while the key is noted as asked. */
  wants = new Float64Array(0)
  asks = new Float64Array(0)
  /** The block that the row's token was taken from: its tag and its end. */
  blockLows = new Int32Array(0)
  endsMs = new Float64Array(0)
  /** Where the keys of the question that was asked last are. */
  readonly located: TableRows
  #slots = new Int32Array(0)
  readonly #local: EmbeddedStore
  /** Of this process's own counters: what leases say is the answer. */
  readonly #own = new Answers()
  readonly #leaseMs: number

  constructor(local: EmbeddedStore, leaseMs: number, wallMs: () => number) {
    this.records = new LeaseRecords(local.table, leaseMs, wallMs)
    this.located = local.newRows()
    this.#local = local
    this.#leaseMs = leaseMs
  }

  /**
   * Takes a token for each row that a lease covers, unless another is known to be refused; with `takes` false, only looks. Writes
   * levels and waits into `answers`, and returns how all of it stands.
   */
  ask(takes: boolean, charges: Charges, answers: Answers, nowMs: number, wallMs: number): Standing {
    const rows = this.located
    rows.locate(charges, wallMs)
    if (rows.length > this.#slots.length) this.#growTo(rows.length)
    rows.lock()
    const standing = this.#lookAtAll(takes, charges, answers, nowMs)
    if (takes && standing !== REFUSED) {
      this.#takeHeld(rows.length)
      // Claims slots, maybe some that were looked at: none of those is used from here on.
      this.#noteAsked(charges, nowMs)
      // As with all that is taken from the fleet, what this process has spent itself is kept in mind.
      if (standing === HELD) this.#local.chargeLocated(rows, charges, this.#own, nowMs, wallMs)
    }
    rows.unlock()
    return standing
  }

  #lookAtAll(takes: boolean, charges: Charges, answers: Answers, nowMs: number): Standing {
    let all: Standing = HELD
    for (let row = 0; row < charges.length; row++) {
      const counter = charges.counters[row] as FleetCounter
      this.asks[row] = 0
      answers.waitsMs[row] = 0
      const isLeased = counter.isLeasable && charges.costs[row] === 1
      if (!isLeased) answers.levels[row] = algorithmOf(counter.limit).size(counter.limit)
      const standing = isLeased ? this.#look(row, takes, counter, answers, nowMs) : UNLEASED
      this.standings[row] = standing
      if (standing === REFUSED) all = REFUSED
      else if (standing !== HELD && all !== REFUSED) all = DRY
    }
    return all
  }

  #look(row: number, takes: boolean, counter: FleetCounter, answers: Answers, nowMs: number): Standing {
    const { records } = this
    const { tokensPerMs, burst } = counter.limit as BucketLimit
    this.#turnTo(row, counter)
    records.look(nowMs)
    this.#slots[row] = records.from
    if (records.from >= 0) {
      if (takes) records.left--
      answers.levels[row] = Math.min(records.left + records.seen, burst)
      if (takes && records.isLow && !this.isClosed) this.asks[row] = this.wants[row] = this.#askAhead(nowMs)
      return HELD
    }
    answers.levels[row] = Math.min(records.seen, burst)
    const note = records.readNote(nowMs)
    if (note === 'refused') {
      const waitMs = records.namedUntilMs - nowMs
      answers.waitsMs[row] = waitMs
      answers.levels[row] = Math.max(0, 1 - waitMs * tokensPerMs)
      return REFUSED
    }
    records.measure(nowMs)
    this.wants[row] = tokensToLease(records.used, records.elapsedMs, this.#leaseMs)
    if (takes && note === 'none' && !this.isClosed) this.asks[row] = this.wants[row]!
    return DRY
  }

  /** How much to lease before what is held is used up; 0: nothing yet. */
  #askAhead(nowMs: number): number {
    const { records } = this
    records.measure(nowMs)
    const { left, used, elapsedMs } = records
    return isRunningOut(left, used, elapsedMs, this.#leaseMs) ? tokensToLease(used, elapsedMs, this.#leaseMs) : 0
  }

  #takeHeld(count: number): void {
    const { table } = this.#local
    for (let row = 0; row < count; row++) {
      if (this.standings[row] !== HELD) continue
      const slot = this.#slots[row]!
      const endMs = table.at(slot)
      this.blockLows[row] = table.low(slot)
      this.endsMs[row] = endMs
      table.write(slot, table.level(slot) - 1, endMs, table.size(slot), table.rate(slot))
    }
  }

  /** One renewal at a time for each key: who finds it noted does not ask. The note ends by itself, should this thread not live to. */
  #noteAsked(charges: Charges, nowMs: number): void {
    const { records, asks } = this
    for (let row = 0; row < charges.length; row++) {
      if (asks[row] === 0) continue
      this.#turnTo(row, charges.counters[row] as FleetCounter)
      if (records.readNote(nowMs) !== 'none' || !records.noteAsked(nowMs + this.#leaseMs, nowMs)) asks[row] = 0
    }
  }

  #turnTo(row: number, { leaseSalt }: FleetCounter): void {
    const { sets, lows, highs } = this.located
    this.records.turnTo(sets[row]!, lows[row]!, highs[row]!, leaseSalt)
  }

  #growTo(rows: number): void {
    const size = Math.max(16, rows * 2)
    this.standings = new Uint8Array(size)
    this.wants = new Float64Array(size)
    this.asks = new Float64Array(size)
    this.blockLows = new Int32Array(size)
    this.endsMs = new Float64Array(size)
    this.#slots = new Int32Array(size)
  }
}
