import type { Clock } from '../../clock.ts'
import type { BucketLimit } from '../../limiter/limit.ts'
import { Charges } from '../charges.ts'
import type { EmbeddedStore } from '../embedded-store.ts'
import type { SharedTable } from '../shared-table.ts'
import type { FleetCounter } from './fleet-counter.ts'
import type { LeaseRecords } from './lease-records.ts'
import { type LeaseListener, LeaseReturns } from './lease-returns.ts'
import { DRY, HELD, LeaseRows, REFUSED } from './lease-rows.ts'
import { refusalMs } from './lease-sizing.ts'
import type { SharedCounters } from './shared-counters.ts'

export interface LeaseParts {
  readonly shared: SharedCounters
  readonly local: EmbeddedStore
  /** Whether what leases cover is charged to this process's own counters too. */
  readonly isMirrored: boolean
  readonly leaseMs: number
  readonly clock: Pick<Clock, 'nowMs'>
  readonly listener: LeaseListener
}

/** What a decision that leases do not cover must ask of Redis. */
export interface Errand {
  readonly sentMs: number
  readonly rows: readonly number[]
  /** How many tokens to lease with each of them. */
  readonly asks: readonly number[]
  readonly dry: readonly DryRow[]
  /** Tokens that were taken from leases already. */
  readonly held: readonly HeldToken[]
}

interface DryRow {
  readonly row: number
  readonly set: number
  readonly low: number
  readonly high: number
  readonly counter: FleetCounter
  /** Above 0: the key is noted as asked. */
  readonly ask: number
}

interface HeldToken {
  readonly set: number
  readonly blockLow: number
  readonly high: number
  readonly endMs: number
}

/**
 * Tokens of plain buckets, had from Redis in blocks ahead of need. Each is used within `leaseMs` of the moment before it
 * was asked for, or not at all: what a window admits left Redis in that window, or in the `leaseMs` before it.
 */
export class Leases {
  readonly #parts: LeaseParts
  readonly #table: SharedTable
  readonly #rows: LeaseRows
  readonly #records: LeaseRecords
  readonly #returns: LeaseReturns
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(parts: LeaseParts) {
    const { local, shared, leaseMs, isMirrored, listener } = parts
    this.#parts = parts
    this.#table = local.rows.table
    this.#rows = new LeaseRows(local, leaseMs, isMirrored)
    this.#records = this.#rows.records
    this.#returns = new LeaseReturns(this.#table, this.#records, shared, leaseMs, listener)
  }

  /** From now on, what is not used goes back by itself. */
  start(): void {
    const { clock, leaseMs } = this.#parts
    this.#timer = setInterval(() => void this.sweep(clock.nowMs()), leaseMs / 8).unref()
  }

  /** Gives back what is left of leases that are old. */
  sweep(nowMs: number): Promise<void> {
    return this.#returns.sweep(nowMs)
  }

  /** Gives back all that this thread has leased and nobody has used. There are no more leases then. */
  close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    return this.#returns.endAll()
  }

  /**
   * Answers from leases or remembered refusals, with levels and waits in `charges`. Where that does not do: what to ask of
   * Redis, after which `onTaken`, `onRefused` or `onFailed` must hear of it; a check takes and leases nothing.
   */
  answer(action: 'take' | 'check', charges: Charges, nowMs: number, wallMs: number): boolean | Errand {
    const takes = action === 'take'
    const standing = this.#rows.ask(takes, charges, nowMs, wallMs)
    if (standing === REFUSED) return false
    const errand = standing === HELD ? undefined : this.#errandFor(takes, charges, nowMs)
    if (takes) this.#renewHeld(charges, nowMs)
    return errand ?? true
  }

  /** All rows were taken. `leased`: how much was leased, by row. */
  onTaken({ dry, sentMs }: Errand, charges: Charges, leased: ReadonlyMap<number, number>): void {
    for (const row of dry) {
      const { burst } = row.counter.limit as BucketLimit
      const level = charges.levels[row.row]!
      const left = this.#add(row, charges, 1, leased.get(row.row) ?? 0, level, sentMs)
      charges.levels[row.row] = Math.min(level + left, burst)
    }
  }

  /** One or more were refused. */
  onRefused({ dry, held }: Errand, charges: Charges): void {
    const nowMs = this.#parts.clock.nowMs()
    for (const row of dry) {
      const waitMs = charges.waitsMs[row.row]!
      const untilMs = nowMs + this.#refusalMs(row, charges.levels[row.row]!)
      this.#turnTo(row)
      if (waitMs > 0) this.#records.noteRefused(untilMs, nowMs + waitMs, nowMs)
      else if (row.ask > 0) this.#records.forgetNote()
      this.#table.unlock(row.set)
    }
    this.#putBack(held, nowMs)
  }

  /** Nobody answered. */
  onFailed({ dry, held }: Errand): void {
    for (const row of dry) if (row.ask > 0) this.#forgetNote(row)
    this.#putBack(held, this.#parts.clock.nowMs())
  }

  #errandFor(takes: boolean, charges: Charges, sentMs: number): Errand {
    const { standings, asks, blockLows, endsMs } = this.#rows
    const { sets, highs } = this.#parts.local.rows
    const errand = { sentMs, rows: [] as number[], asks: [] as number[], dry: [] as DryRow[], held: [] as HeldToken[] }
    for (let row = 0; row < charges.length; row++) {
      if (standings[row] === HELD) {
        if (takes) errand.held.push({ set: sets[row]!, blockLow: blockLows[row]!, high: highs[row]!, endMs: endsMs[row]! })
        continue
      }
      errand.rows.push(row)
      errand.asks.push(asks[row]!)
      if (standings[row] === DRY) errand.dry.push(this.#dryRow(row, charges))
    }
    return errand
  }

  /** Fetches the next block for rows that are covered still, but not for long. */
  #renewHeld(charges: Charges, nowMs: number): void {
    const { standings, asks } = this.#rows
    for (let row = 0; row < charges.length; row++) {
      if (asks[row] !== 0 && standings[row] === HELD) void this.#renew(this.#dryRow(row, charges), charges, nowMs)
    }
  }

  async #renew({ row, ...place }: DryRow, { values, valuesFrom }: Charges, sentMs: number): Promise<void> {
    const { shared, clock } = this.#parts
    const only = { ...place, row: 0 }
    const charges = new Charges()
    for (let i = valuesFrom[row]!; i < valuesFrom[row + 1]!; i++) charges.addValue(values[i]!)
    charges.add(place.counter, 0)
    const leased = new Map<number, number>()
    try {
      const groups = this.#isClosed ? undefined : shared.callsFor('take', charges, [0], sentMs, [place.ask])
      // What failed is not asked for again until the note ends.
      if (groups === undefined) return
      await shared.ask(groups, charges, leased)
    } catch {
      return
    }
    const level = charges.levels[0]!
    this.#add(only, charges, 0, leased.get(0)!, level, sentMs)
    if (leased.get(0)! > 0) return
    const nowMs = clock.nowMs()
    const untilMs = nowMs + this.#refusalMs(only, level)
    this.#turnTo(only)
    this.#records.noteAsked(untilMs, nowMs)
    this.#table.unlock(only.set)
  }

  /** Adds what was had to the key's leases; what they cannot keep goes back at once. Answers the tokens held. */
  #add(row: DryRow, charges: Charges, cost: number, leased: number, seen: number, sentMs: number): number {
    const { shared, clock, leaseMs, listener } = this.#parts
    const { set, high, counter } = row
    const limit = counter.limit as BucketLimit
    const endMs = sentMs + leaseMs
    this.#turnTo(row)
    const slot = this.#isClosed && leased > 0 ? -1 : this.#records.add(cost, leased, seen, endMs, clock.nowMs())
    const low = slot < 0 ? 0 : this.#table.low(slot)
    const { left } = this.#records
    if (row.ask > 0) this.#records.forgetNote()
    this.#table.unlock(set)
    if (leased === 0) return left
    listener.onTokens('leased', leased)
    const key = shared.keyOf(counter, charges.values, charges.valuesFrom[row.row]!, charges.valuesFrom[row.row + 1]!)
    if (slot >= 0) this.#returns.add({ key, limit, set, low, high, endMs })
    else void this.#returns.giveBack(key, limit, leased)
    return left
  }

  #putBack(held: readonly HeldToken[], nowMs: number): void {
    for (const { set, blockLow, high, endMs } of held) {
      this.#table.lock(set)
      const isBack = this.#records.putBack(set, blockLow, high, endMs, nowMs)
      this.#table.unlock(set)
      if (!isBack) this.#parts.listener.onTokens('lost', 1)
    }
  }

  #forgetNote(row: DryRow): void {
    this.#turnTo(row)
    this.#records.forgetNote()
    this.#table.unlock(row.set)
  }

  /** Locks the set, too. */
  #turnTo({ set, low, high, counter }: DryRow): void {
    this.#table.lock(set)
    this.#records.turnTo(set, low, high, counter.leaseSalt)
  }

  #dryRow(row: number, charges: Charges): DryRow {
    const { sets, lows, highs } = this.#parts.local.rows
    const counter = charges.counters[row] as FleetCounter
    return { row, set: sets[row]!, low: lows[row]!, high: highs[row]!, counter, ask: this.#rows.asks[row]! }
  }

  #refusalMs({ counter, ask }: DryRow, level: number): number {
    const { tokensPerMs, burst } = counter.limit as BucketLimit
    return refusalMs(level, ask, tokensPerMs, burst, this.#parts.leaseMs)
  }
}
