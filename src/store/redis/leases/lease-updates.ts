import type { BucketLimit } from '../../../limiter/limit.ts'
import type { Clock } from '../../../time/clock.ts'
import type { ChargeResults, Charges } from '../../charges.ts'
import type { EmbeddedStore } from '../../table/embedded-store.ts'
import type { SharedTable } from '../../table/shared-table.ts'
import type { FleetCounter } from '../fleet-counter.ts'
import type { Grant } from '../script-calls.ts'
import type { SharedCounters } from '../shared-counters.ts'
import { KeyLeases, putTokenBack } from './key-leases.ts'
import { type LeaseListener, type LeaseReturns, refusalMs } from './lease-returns.ts'
import type { HeldRow, UncoveredRow } from './remote-request.ts'

export interface LeaseParts {
  readonly local: EmbeddedStore
  readonly shared: SharedCounters
  readonly leaseMs: number
  readonly clock: Clock
  readonly listener: LeaseListener
}

/** Updates the leases of keys in the table after a call to Redis: for grants, refusals, failures and resets. */
export class LeaseUpdates {
  readonly #parts: LeaseParts
  readonly #table: SharedTable
  readonly #returns: LeaseReturns

  constructor(parts: LeaseParts, returns: LeaseReturns) {
    this.#parts = parts
    this.#table = parts.local.table
    this.#returns = returns
  }

  /**
   * Adds a grant to the key's leases, and charges it to this process's own counter. The decision itself took `cost`, and Redis has `seen`
   * left. Tokens that the leases cannot keep, or for which the own counter has no room, are given back at once; with `isClosed`, all of
   * them are. Returns the tokens held.
   */
  add(row: UncoveredRow, key: string, cost: number, grant: Grant, seen: number, sentMs: number, isClosed: boolean): number {
    const { local, shared, clock, leaseMs, listener } = this.#parts
    const { set, low, high, counter } = row
    const { tokens: leased, momentMs: leasedMs } = grant
    const endMs = sentMs + leaseMs
    const nowMs = clock.nowMs()
    const wallMs = clock.wallMs()
    const times = { nowMs, askedMs: sentMs }
    const leases = this.#lockedLeases(row)
    const isVoid = this.#isResetSince(row, leasedMs)
    const isCharged = leased > 0 && !isVoid && !isClosed && local.chargeLease(row, counter, leased, times, wallMs, shared.slackMs)
    const slot = leases.add(cost, isCharged ? leased : 0, seen, endMs, nowMs)
    if (isCharged && slot < 0) local.creditLease(row, leased)
    const blockLow = slot < 0 ? 0 : this.#table.low(slot)
    const { left, overwritten } = leases
    if (row.ask > 0) this.#noteGrant(leases, row, leased, seen, nowMs)
    this.#table.unlock(set)
    if (overwritten > 0) listener.onTokens('lost', overwritten)
    if (leased === 0) return left
    listener.onTokens('leased', leased)
    const limit = counter.limit as BucketLimit
    if (slot >= 0) this.#returns.add({ key, limit, set, low, blockLow, high, endMs, leasedMs, chargedMs: nowMs })
    // Redis would not take these tokens back, because its counter was reset since.
    else if (isVoid) listener.onTokens('lost', leased)
    else void this.#returns.giveBack(key, limit, leased, leasedMs)
    return left
  }

  /** Notes the rows that Redis refused, so that they are not asked for again too soon. */
  refuse(rows: readonly UncoveredRow[], results: ChargeResults, nowMs: number): void {
    for (const row of rows) {
      const waitMs = results.waitsMs[row.row]!
      const untilMs = nowMs + this.#refusalMs(row, results.levels[row.row]!)
      const leases = this.#lockedLeases(row)
      // A refusal from before a reset no longer holds.
      const isRefused = waitMs > 0 && !this.#isResetSince(row, results.momentMs)
      if (isRefused) leases.noteRefused(untilMs, nowMs + waitMs, nowMs)
      else if (row.ask > 0) leases.forgetNote()
      this.#table.unlock(row.set)
    }
  }

  /** Removes the notes of a call that failed, so that another thread may ask for a lease at once. */
  fail(rows: readonly UncoveredRow[]): void {
    for (const row of rows) {
      if (row.ask === 0) continue
      this.#lockedLeases(row).forgetNote()
      this.#table.unlock(row.set)
    }
  }

  putBack(held: readonly HeldRow[], nowMs: number): void {
    for (const block of held) {
      this.#table.lock(block.set)
      const isBack = putTokenBack(this.#table, block, nowMs)
      this.#table.unlock(block.set)
      if (!isBack) this.#parts.listener.onTokens('lost', 1)
    }
  }

  /** Drops the leases and notes of a row whose counter was reset. Their tokens are not given back. */
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

  /** Notes the outcome of a request for a lease, after which `seen` was left in Redis. The caller holds the set's lock. */
  #noteGrant(leases: KeyLeases, row: UncoveredRow, leased: number, seen: number, nowMs: number): void {
    const untilMs = nowMs + this.#refusalMs(row, seen)
    // If the fleet wants more than there is, every instance would otherwise ask for each single token as it is refilled.
    if (leases.isScarce && leased < row.ask / 2) leases.noteRefused(untilMs, untilMs, nowMs)
    else if (leased === 0) leases.noteAsked(untilMs, nowMs)
    else leases.forgetNote()
  }

  /** The caller holds the set's lock. */
  #isResetSince({ set, low, high }: UncoveredRow, takenMs: number): boolean {
    return this.#parts.local.isResetSince(set, low, high, takenMs)
  }

  /** Locks the set and returns the key's leases. The caller unlocks the set. */
  #lockedLeases({ set, low, high, counter }: Pick<UncoveredRow, 'set' | 'low' | 'high' | 'counter'>): KeyLeases {
    const { leaseMs, clock } = this.#parts
    const leases = new KeyLeases(this.#table, leaseMs, () => clock.wallMs())
    leases.locate(set, low, high, counter.leaseSalt, counter.rule)
    this.#table.lock(set)
    return leases
  }

  #refusalMs({ counter, want }: UncoveredRow, level: number): number {
    const { tokensPerMs, burst } = counter.limit as BucketLimit
    return refusalMs(level, want, tokensPerMs, burst, this.#parts.leaseMs)
  }
}
