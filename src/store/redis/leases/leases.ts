import type { Clock } from '../../../clock.ts'
import type { BucketLimit } from '../../../limiter/limit.ts'
import { Answers } from '../../answers.ts'
import { Charges } from '../../charges.ts'
import type { EmbeddedStore } from '../../embedded-store.ts'
import type { SharedTable } from '../../shared-table.ts'
import type { FleetCounter } from '../fleet-counter.ts'
import type { Grant, SharedCounters } from '../shared-counters.ts'
import type { DryRow, Errand, HeldRow } from './errand.ts'
import type { LeaseRecords } from './lease-records.ts'
import { type LeaseListener, LeaseReturns } from './lease-returns.ts'
import { DRY, HELD, LeaseRows, REFUSED } from './lease-rows.ts'
import { refusalMs } from './lease-sizing.ts'

export interface LeaseParts {
  readonly shared: SharedCounters
  readonly local: EmbeddedStore
  readonly leaseMs: number
  readonly clock: Clock
  readonly listener: LeaseListener
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
  readonly #renewals = new Set<Promise<void>>()

  constructor(parts: LeaseParts) {
    const { local, shared, leaseMs, clock, listener } = parts
    this.#parts = parts
    this.#table = local.table
    this.#rows = new LeaseRows(local, leaseMs, () => clock.wallMs())
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

  /** Gives back all that this thread has leased and nobody has used, also what is on its way. There are no more leases then. */
  async close(): Promise<void> {
    this.#rows.isClosed = true
    clearInterval(this.#timer)
    await Promise.all(this.#renewals)
    await this.#returns.endAll()
  }

  /**
   * Decides by leases or remembered refusals, with levels and waits in `answers`. Where that does not do: what to ask of
   * Redis, after which `onAnswer` or `onFailure` must hear of it; a check takes and leases nothing.
   */
  answer(action: 'take' | 'check', charges: Charges, answers: Answers, nowMs: number, wallMs: number): boolean | Errand {
    const takes = action === 'take'
    const standing = this.#rows.ask(takes, charges, answers, nowMs, wallMs)
    if (standing === REFUSED) return false
    const errand = standing === HELD ? undefined : this.#errandFor(takes, charges, answers, nowMs)
    if (takes) this.#renewHeld(charges, nowMs)
    return errand ?? true
  }

  /** What Redis said, as it stands in `answers`; `leased`: how much it leased, by row. */
  onAnswer(errand: Errand, fits: boolean, charges: Charges, answers: Answers, leased: ReadonlyMap<number, Grant>): void {
    const { takes, held, dry, sentMs } = errand
    for (const { row, level } of held) {
      answers.levels[row] = level
      answers.waitsMs[row] = 0
    }
    if (!fits) this.#onRefusal(errand, answers)
    else if (takes) for (const row of dry) this.#onTaken(row, charges, answers, leased.get(row.row)!, sentMs)
  }

  /** Nobody has answered. */
  onFailure({ takes, dry, held }: Errand): void {
    for (const row of dry) if (row.ask > 0) this.#forgetNote(row)
    if (takes) this.#putBack(held, this.#parts.clock.nowMs())
  }

  #onTaken(row: DryRow, charges: Charges, answers: Answers, grant: Grant, sentMs: number): void {
    const { burst } = row.counter.limit as BucketLimit
    const level = answers.levels[row.row]!
    const left = this.#add(row, charges, 1, grant, level, sentMs)
    answers.levels[row.row] = Math.min(level + left, burst)
  }

  #onRefusal({ takes, dry, held }: Errand, answers: Answers): void {
    const nowMs = this.#parts.clock.nowMs()
    for (const row of dry) {
      const waitMs = answers.waitsMs[row.row]!
      const untilMs = nowMs + this.#refusalMs(row, answers.levels[row.row]!)
      this.#turnTo(row)
      if (waitMs > 0) this.#records.noteRefused(untilMs, nowMs + waitMs, nowMs)
      else if (row.ask > 0) this.#records.forgetNote()
      this.#table.unlock(row.set)
    }
    if (takes) this.#putBack(held, nowMs)
  }

  #errandFor(takes: boolean, charges: Charges, answers: Answers, sentMs: number): Errand {
    const { standings, asks, blockLows, endsMs } = this.#rows
    const { sets, highs } = this.#rows.located
    const errand = { takes, sentMs, rows: [] as number[], asks: [] as number[], dry: [] as DryRow[], held: [] as HeldRow[] }
    for (let row = 0; row < charges.length; row++) {
      if (standings[row] === HELD) {
        const block = { set: sets[row]!, blockLow: blockLows[row]!, high: highs[row]!, endMs: endsMs[row]! }
        errand.held.push({ row, level: answers.levels[row]!, ...block })
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
    let due: DryRow[] | undefined
    for (let row = 0; row < charges.length; row++) {
      if (asks[row] === 0 || standings[row] !== HELD) continue
      due ??= []
      due.push(this.#dryRow(row, charges))
    }
    if (due !== undefined) for (const row of due) void this.#renewOne(row, charges, nowMs)
  }

  async #renewOne(row: DryRow, charges: Charges, nowMs: number): Promise<void> {
    const renewal = this.#renew(row, charges, nowMs)
    this.#renewals.add(renewal)
    await renewal
    this.#renewals.delete(renewal)
  }

  async #renew({ row, ...place }: DryRow, { values, valuesFrom }: Charges, sentMs: number): Promise<void> {
    const { shared, local } = this.#parts
    const only = { ...place, row: 0 }
    const charges = new Charges()
    for (let i = valuesFrom[row]!; i < valuesFrom[row + 1]!; i++) charges.addValue(values[i]!)
    charges.add(place.counter, 0)
    const answers = new Answers()
    const leased = new Map<number, Grant>()
    try {
      local.checkAll(charges, answers, sentMs, 0)
      const groups = shared.callsFor('take', charges, answers, [0], sentMs, 0, [place.ask])
      // What failed is not asked for again until the note ends.
      if (groups === undefined) return
      await shared.ask(groups, charges, answers, leased)
    } catch {
      return // counted where it happened
    }
    this.#add(only, charges, 0, leased.get(0)!, answers.levels[0]!, sentMs)
  }

  /** Adds what was had to the key's leases; what they cannot keep goes back at once. Answers the tokens held. */
  #add(row: DryRow, charges: Charges, cost: number, grant: Grant, seen: number, sentMs: number): number {
    const { shared, clock, leaseMs, listener } = this.#parts
    const { set, high, counter } = row
    const { tokens: leased, wallMs: leasedWallMs } = grant
    const limit = counter.limit as BucketLimit
    const endMs = sentMs + leaseMs
    const nowMs = clock.nowMs()
    this.#turnTo(row)
    const slot = this.#records.add(cost, this.#rows.isClosed ? 0 : leased, seen, endMs, nowMs)
    const low = slot < 0 ? 0 : this.#table.low(slot)
    const { left, overwritten } = this.#records
    if (row.ask > 0) this.#noteGrant(row, leased, seen, nowMs)
    this.#table.unlock(set)
    if (overwritten > 0) listener.onTokens('lost', overwritten)
    if (leased === 0) return left
    listener.onTokens('leased', leased)
    const key = shared.keyOf(counter, charges.values, charges.valuesFrom[row.row]!, charges.valuesFrom[row.row + 1]!)
    if (slot >= 0) this.#returns.add({ key, limit, set, low, high, endMs, leasedWallMs })
    else void this.#returns.giveBack(key, limit, leased, leasedWallMs)
    return left
  }

  /** Notes what came of an ask, `seen` being left there. Under the lock. */
  #noteGrant(row: DryRow, leased: number, seen: number, nowMs: number): void {
    const untilMs = nowMs + this.#refusalMs(row, seen)
    // Where the fleet wants more than there is, all would ask for every single token as it comes back.
    if (this.#records.isScarce && leased < row.ask / 2) this.#records.noteRefused(untilMs, untilMs, nowMs)
    else if (leased === 0) this.#records.noteAsked(untilMs, nowMs)
    else this.#records.forgetNote()
  }

  #putBack(held: readonly HeldRow[], nowMs: number): void {
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
    const { sets, lows, highs } = this.#rows.located
    const counter = charges.counters[row] as FleetCounter
    const { wants, asks } = this.#rows
    return { row, set: sets[row]!, low: lows[row]!, high: highs[row]!, counter, want: wants[row]!, ask: asks[row]! }
  }

  #refusalMs({ counter, want }: DryRow, level: number): number {
    const { tokensPerMs, burst } = counter.limit as BucketLimit
    return refusalMs(level, want, tokensPerMs, burst, this.#parts.leaseMs)
  }
}
