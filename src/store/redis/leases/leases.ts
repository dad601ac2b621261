import type { Clock } from '../../../clock.ts'
import type { BucketLimit } from '../../../limiter/limit.ts'
import type { Answers } from '../../answers.ts'
import type { Charges } from '../../charges.ts'
import type { EmbeddedStore } from '../../embedded-store.ts'
import type { SharedTable } from '../../shared-table.ts'
import { applyResets } from '../apply-resets.ts'
import type { FleetCounter } from '../fleet-counter.ts'
import { type Grant, grantOf, type QuestionCall } from '../question-call.ts'
import type { SharedCounters } from '../shared-counters.ts'
import { KeyLeases } from './key-leases.ts'
import { putTokenBack } from './lease-blocks.ts'
import { leaseAlone } from './lease-renewal.ts'
import { type LeaseListener, LeaseReturns } from './lease-returns.ts'
import { COVERED, LeaseRows, REFUSED, UNCOVERED } from './lease-rows.ts'
import { refusalMs } from './lease-sizing.ts'
import type { HeldRow, RemoteRequest, UncoveredRow } from './remote-request.ts'

export interface LeaseParts {
  readonly shared: SharedCounters
  readonly local: EmbeddedStore
  readonly leaseMs: number
  readonly clock: Clock
  readonly listener: LeaseListener
}

/**
 * Tokens of plain buckets, obtained from Redis in blocks ahead of need. Each is used within `leaseMs` of the moment before it
 * was asked for, or not at all: what a window admits left Redis in that window, or in the `leaseMs` before it.
 */
export class Leases {
  readonly #parts: LeaseParts
  readonly #table: SharedTable
  readonly #rows: LeaseRows
  readonly #returns: LeaseReturns
  #timer: NodeJS.Timeout | undefined
  readonly #renewals = new Set<Promise<void>>()

  constructor(parts: LeaseParts) {
    const { local, shared, leaseMs, clock, listener } = parts
    this.#parts = parts
    this.#table = local.table
    this.#rows = new LeaseRows(local, leaseMs, () => clock.wallMs())
    this.#returns = new LeaseReturns(this.#table, shared, leaseMs, listener)
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
  answer(action: 'take' | 'check', charges: Charges, answers: Answers, nowMs: number, wallMs: number): boolean | RemoteRequest {
    const takes = action === 'take'
    const coverage = this.#rows.ask(takes, charges, answers, nowMs, wallMs)
    if (coverage === REFUSED) return false
    const request = coverage === COVERED ? undefined : this.#requestFor(takes, charges, answers, nowMs)
    if (takes) this.#renewHeld(charges, nowMs)
    return request ?? true
  }

  /** What Redis said to `calls`, as it stands in `answers`. */
  onAnswer(request: RemoteRequest, fits: boolean, charges: Charges, answers: Answers, calls: readonly QuestionCall[]): void {
    const { takes, held, uncovered, sentMs } = request
    for (const { row, level } of held) {
      answers.levels[row] = level
      answers.waitsMs[row] = 0
    }
    if (!fits) this.#onRefusal(request, answers)
    else if (takes) for (const row of uncovered) this.#onTaken(row, charges, answers, grantOf(calls, row.row), sentMs)
  }

  /** Nobody has answered. */
  onFailure({ takes, uncovered, held }: RemoteRequest): void {
    for (const row of uncovered) {
      if (row.ask === 0) continue
      this.#lockedLeases(row).forgetNote()
      this.#table.unlock(row.set)
    }
    if (takes) this.#putBack(held, this.#parts.clock.nowMs())
  }

  /** The row's counter was reset: what was leased and noted before means nothing any more. Its tokens do not go back. */
  forget(charges: Charges, row: number): void {
    const counter = charges.counters[row] as FleetCounter
    if (!counter.isLeasable) return
    const located = this.#parts.local.newRows()
    located.locate(charges, 0)
    const [set, low, high] = [located.sets[row]!, located.lows[row]!, located.highs[row]!]
    const leases = this.#lockedLeases({ set, low, high, counter })
    const unused = leases.forget()
    this.#table.unlock(set)
    if (unused > 0) this.#parts.listener.onTokens('lost', unused)
  }

  #onTaken(row: UncoveredRow, charges: Charges, answers: Answers, grant: Grant, sentMs: number): void {
    const { burst } = row.counter.limit as BucketLimit
    const level = answers.levels[row.row]!
    const left = this.#add(row, this.#parts.shared.keyOf(charges, row.row), 1, grant, level, sentMs)
    answers.levels[row.row] = Math.min(level + left, burst)
  }

  /** A check leaves nothing behind: what an operator asks changes no decision. */
  #onRefusal({ takes, uncovered, held }: RemoteRequest, answers: Answers): void {
    if (!takes) return
    const nowMs = this.#parts.clock.nowMs()
    for (const row of uncovered) {
      const waitMs = answers.waitsMs[row.row]!
      const untilMs = nowMs + this.#refusalMs(row, answers.levels[row.row]!)
      const leases = this.#lockedLeases(row)
      // A refusal from before a reset must not be remembered.
      const isStill = waitMs > 0 && !this.#isResetSince(row, answers.momentMs)
      if (isStill) leases.noteRefused(untilMs, nowMs + waitMs, nowMs)
      else if (row.ask > 0) leases.forgetNote()
      this.#table.unlock(row.set)
    }
    this.#putBack(held, nowMs)
  }

  #requestFor(takes: boolean, charges: Charges, answers: Answers, sentMs: number): RemoteRequest {
    const { coverages, asks, blockLows, endsMs } = this.#rows
    const { sets, highs } = this.#rows.located
    const [rows, leases]: [number[], number[]] = [[], []]
    const [uncovered, held]: [UncoveredRow[], HeldRow[]] = [[], []]
    for (let row = 0; row < charges.length; row++) {
      if (coverages[row] === COVERED) {
        const block = { set: sets[row]!, blockLow: blockLows[row]!, high: highs[row]!, endMs: endsMs[row]! }
        held.push({ row, level: answers.levels[row]!, ...block })
        continue
      }
      rows.push(row)
      leases.push(asks[row]!)
      if (coverages[row] === UNCOVERED) uncovered.push(this.#uncoveredRow(row, charges))
    }
    return { takes, sentMs, rows, leases, uncovered, held }
  }

  /** Fetches the next block for rows that are covered still, but not for long. */
  #renewHeld(charges: Charges, nowMs: number): void {
    const { coverages, asks } = this.#rows
    let due: UncoveredRow[] | undefined
    for (let row = 0; row < charges.length; row++) {
      if (asks[row] === 0 || coverages[row] !== COVERED) continue
      due ??= []
      due.push(this.#uncoveredRow(row, charges))
    }
    if (due !== undefined) for (const row of due) void this.#renewOne(row, charges, nowMs)
  }

  async #renewOne(row: UncoveredRow, charges: Charges, nowMs: number): Promise<void> {
    const renewal = this.#renew(row, charges, nowMs)
    this.#renewals.add(renewal)
    await renewal
    this.#renewals.delete(renewal)
  }

  /** What failed is not asked for again until the note ends. */
  #renew(row: UncoveredRow, charges: Charges, sentMs: number): Promise<void> {
    const { shared, local, clock } = this.#parts
    return leaseAlone(row, charges, shared, local, sentMs, (lease) => {
      applyResets(lease.calls, lease.charges, local, clock.nowMs(), (alone) => this.forget(alone, 0))
      this.#add(row, lease.key, 0, lease.grant, lease.level, sentMs)
    })
  }

  /** Adds what was obtained to the key's leases; what they cannot keep goes back at once. Returns the tokens held. */
  #add(row: UncoveredRow, key: string, cost: number, grant: Grant, seen: number, sentMs: number): number {
    const { clock, leaseMs, listener } = this.#parts
    const { set, high, counter } = row
    const { tokens: leased, momentMs: leasedMs } = grant
    const endMs = sentMs + leaseMs
    const nowMs = clock.nowMs()
    const leases = this.#lockedLeases(row)
    const isVoid = this.#isResetSince(row, leasedMs)
    const slot = leases.add(cost, isVoid || this.#rows.isClosed ? 0 : leased, seen, endMs, nowMs)
    const blockLow = slot < 0 ? 0 : this.#table.low(slot)
    const { left, overwritten } = leases
    if (row.ask > 0) this.#noteGrant(leases, row, leased, seen, nowMs)
    this.#table.unlock(set)
    if (overwritten > 0) listener.onTokens('lost', overwritten)
    if (leased === 0) return left
    listener.onTokens('leased', leased)
    const limit = counter.limit as BucketLimit
    if (slot >= 0) this.#returns.add({ key, limit, set, blockLow, high, endMs, leasedMs })
    // Redis would not take them back: its counter does not know them any more.
    else if (isVoid) listener.onTokens('lost', leased)
    else void this.#returns.giveBack(key, limit, leased, leasedMs)
    return left
  }

  /** Notes what came of an ask, `seen` being left there. Under the lock. */
  #noteGrant(leases: KeyLeases, row: UncoveredRow, leased: number, seen: number, nowMs: number): void {
    const untilMs = nowMs + this.#refusalMs(row, seen)
    // Where the fleet wants more than there is, all would ask for every single token as it comes back.
    if (leases.isScarce && leased < row.ask / 2) leases.noteRefused(untilMs, untilMs, nowMs)
    else if (leased === 0) leases.noteAsked(untilMs, nowMs)
    else leases.forgetNote()
  }

  #putBack(held: readonly HeldRow[], nowMs: number): void {
    for (const place of held) {
      this.#table.lock(place.set)
      const isBack = putTokenBack(this.#table, place, nowMs)
      this.#table.unlock(place.set)
      if (!isBack) this.#parts.listener.onTokens('lost', 1)
    }
  }

  /** Under the lock. */
  #isResetSince({ set, low, high }: UncoveredRow, takenMs: number): boolean {
    return this.#parts.local.isResetSince(set, low, high, takenMs)
  }

  /** Locks the set, too: whoever calls unlocks it. */
  #lockedLeases({ set, low, high, counter }: Pick<UncoveredRow, 'set' | 'low' | 'high' | 'counter'>): KeyLeases {
    const { leaseMs, clock } = this.#parts
    const leases = new KeyLeases(this.#table, leaseMs, () => clock.wallMs())
    leases.place(set, low, high, counter.leaseSalt)
    this.#table.lock(set)
    return leases
  }

  #uncoveredRow(row: number, charges: Charges): UncoveredRow {
    const { sets, lows, highs } = this.#rows.located
    const counter = charges.counters[row] as FleetCounter
    const { wants, asks } = this.#rows
    return { row, set: sets[row]!, low: lows[row]!, high: highs[row]!, counter, want: wants[row]!, ask: asks[row]! }
  }

  #refusalMs({ counter, want }: UncoveredRow, level: number): number {
    const { tokensPerMs, burst } = counter.limit as BucketLimit
    return refusalMs(level, want, tokensPerMs, burst, this.#parts.leaseMs)
  }
}
