import type { BucketLimit } from '../../../limiter/limit.ts'
import { ChargeResults, Charges } from '../../charges.ts'
import type { EmbeddedStore } from '../../table/embedded-store.ts'
import type { FleetCounter } from '../fleet-counter.ts'
import { applyRefunds, applyResets, type Grant, grantOf, type QueryCall } from '../script-calls.ts'
import type { SharedCounters } from '../shared-counters.ts'
import { LeaseReturns } from './lease-returns.ts'
import { COVERED, LeaseRows, REFUSED, UNCOVERED } from './lease-rows.ts'
import { type LeaseParts, LeaseUpdates } from './lease-updates.ts'
import type { HeldRow, RemoteRequest, UncoveredRow } from './remote-request.ts'

/**
 * Tokens of plain buckets, pre-fetched from Redis in blocks. Each token is used within `leaseMs` of sending the request for it, or not at
 * all: whatever is admitted in a span of time was taken from Redis in that span, or in the `leaseMs` before it.
 */
export class Leases {
  readonly #parts: LeaseParts
  readonly #rows: LeaseRows
  readonly #returns: LeaseReturns
  readonly #updates: LeaseUpdates
  #isSweeping = false
  /** Runs while there are leases. */
  #timer: NodeJS.Timeout | undefined
  readonly #renewals = new Set<Promise<void>>()

  constructor(parts: LeaseParts) {
    const { local, leaseMs, clock } = parts
    this.#parts = parts
    this.#rows = new LeaseRows(local, leaseMs, () => clock.wallMs())
    this.#returns = new LeaseReturns(parts)
    this.#updates = new LeaseUpdates(parts, this.#returns)
  }

  /** The longest that a lease, or a remembered refusal, is used. */
  get lifeMs(): number {
    return this.#parts.leaseMs
  }

  /** Starts giving back unused tokens automatically. */
  start(): void {
    this.#isSweeping = true
  }

  /** Gives back what is left of old leases. */
  sweep(nowMs: number): Promise<void> {
    return this.#returns.sweep(nowMs)
  }

  /** Gives back all unused tokens that this thread leased, including those of pending calls. No leases are made after that. */
  async close(): Promise<void> {
    this.#rows.isClosed = true
    this.#isSweeping = false
    this.#stopTimer()
    await Promise.all(this.#renewals)
    await this.#returns.endAll()
  }

  /**
   * Decides by leases or remembered refusals, and writes levels and waits to `results`. If these are not enough, returns what to ask of
   * Redis; the caller then calls `onReply` or `onFailure`. A check takes and leases nothing.
   */
  decide(action: 'take' | 'check', charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): boolean | RemoteRequest {
    const takes = action === 'take'
    const coverage = this.#rows.ask(takes, charges, results, nowMs, wallMs)
    if (coverage === REFUSED) return false
    const request = coverage === COVERED ? undefined : this.#requestFor(takes, charges, results, nowMs)
    if (this.#rows.hasAsks) this.#renewHeld(charges, nowMs)
    return request ?? true
  }

  /** Applies the replies of Redis to `calls`; levels and waits are in `results`. */
  onReply(request: RemoteRequest, fits: boolean, charges: Charges, results: ChargeResults, calls: readonly QueryCall[]): void {
    const { takes, held, uncovered, sentMs, rows, lefts } = request
    for (const { row, level } of held) {
      results.levels[row] = level
      results.waitsMs[row] = 0
    }
    for (const [i, row] of rows.entries()) {
      if (lefts[i]! > 0)
        results.levels[row] = Math.min(results.levels[row]! + lefts[i]!, (charges.counters[row]!.limit as BucketLimit).burst)
    }
    // A check leaves nothing behind, so that inspecting a counter changes no decision.
    if (!takes) return
    if (fits) for (const row of uncovered) this.#onTaken(row, charges, results, grantOf(calls, row.row), sentMs)
    else this.#onRefusal(request, results)
  }

  /** Called if Redis did not reply, or replied with an error. */
  onFailure({ takes, uncovered, held }: RemoteRequest): void {
    this.#updates.fail(uncovered)
    if (takes) this.#updates.putBack(held, this.#parts.clock.nowMs())
  }

  /** Drops the leases and notes of a row whose counter was reset. Their tokens are not given back. */
  forget(charges: Charges, row: number): void {
    this.#updates.forget(charges, row)
  }

  #onTaken(row: UncoveredRow, charges: Charges, results: ChargeResults, grant: Grant, sentMs: number): void {
    const { burst } = row.counter.limit as BucketLimit
    const level = results.levels[row.row]!
    const left = this.#add(row, this.#parts.shared.keyOf(charges, row.row), 1, grant, level, sentMs)
    results.levels[row.row] = Math.min(level + left, burst)
  }

  #onRefusal({ uncovered, held }: RemoteRequest, results: ChargeResults): void {
    const nowMs = this.#parts.clock.nowMs()
    this.#updates.refuse(uncovered, results, nowMs)
    this.#updates.putBack(held, nowMs)
  }

  #requestFor(takes: boolean, charges: Charges, results: ChargeResults, sentMs: number): RemoteRequest {
    const { coverages, asks, lefts: leftHere, blockLows, endsMs } = this.#rows
    const { sets, highs } = this.#rows.located
    const [rows, leases, lefts]: [number[], number[], number[]] = [[], [], []]
    const [uncovered, held]: [UncoveredRow[], HeldRow[]] = [[], []]
    for (let row = 0; row < charges.length; row++) {
      if (coverages[row] === COVERED) {
        const block = { set: sets[row]!, blockLow: blockLows[row]!, high: highs[row]!, endMs: endsMs[row]! }
        held.push({ row, level: results.levels[row]!, ...block })
        continue
      }
      rows.push(row)
      leases.push(asks[row]!)
      lefts.push(leftHere[row]!)
      if (coverages[row] === UNCOVERED) uncovered.push(this.#uncoveredRow(row, charges))
    }
    return { takes, sentMs, rows, leases, lefts, uncovered, held }
  }

  /** Fetches the next block for rows whose lease will soon be used up. */
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

  /** Asks for the next block. If that fails, the key is not asked for again until its note ends. */
  #renew(row: UncoveredRow, charges: Charges, sentMs: number): Promise<void> {
    const { shared, local, clock } = this.#parts
    return leaseAlone(row, charges, shared, local, sentMs, clock.wallMs(), (lease) => {
      applyResets(lease.calls, lease.charges, local, clock.nowMs(), (alone) => this.forget(alone, 0))
      applyRefunds(lease.calls, lease.charges, local, clock.nowMs())
      this.#add(row, lease.key, 0, lease.grant, lease.level, sentMs)
    })
  }

  #add(row: UncoveredRow, key: string, cost: number, grant: Grant, seen: number, sentMs: number): number {
    const left = this.#updates.add(row, key, cost, grant, seen, sentMs, this.#rows.isClosed)
    this.#startTimer()
    return left
  }

  #startTimer(): void {
    if (this.#timer !== undefined || !this.#isSweeping || this.#returns.isEmpty) return
    const { clock, leaseMs } = this.#parts
    this.#timer = setInterval(() => {
      void this.sweep(clock.nowMs())
      if (this.#returns.isEmpty) this.#stopTimer()
    }, leaseMs / 8).unref()
  }

  #stopTimer(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #uncoveredRow(row: number, charges: Charges): UncoveredRow {
    const { sets, lows, highs } = this.#rows.located
    const counter = charges.counters[row] as FleetCounter
    const { wants, asks } = this.#rows
    return { row, set: sets[row]!, low: lows[row]!, high: highs[row]!, counter, want: wants[row]!, ask: asks[row]! }
  }
}

/** A lease that Redis granted without a decision. */
interface RenewedLease {
  readonly key: string
  readonly grant: Grant
  readonly level: number
  /** The calls that asked for the lease, and their charges, which are of this row alone. */
  readonly calls: readonly QueryCall[]
  readonly charges: Charges
}

/**
 * Asks for a lease in the background, without a decision. Calls `onLease` in the same turn as the reply, because a decision whose reply
 * arrives with it must find the lease. Resolves after that, or when there is no lease. Never rejects because of Redis.
 */
async function leaseAlone(
  { row, counter, ask }: UncoveredRow,
  { values, valuesFrom }: Charges,
  shared: SharedCounters,
  local: EmbeddedStore,
  sentMs: number,
  wallMs: number,
  onLease: (lease: RenewedLease) => void,
): Promise<void> {
  // The caller's charges are reused for another decision before Redis replies, so they are copied.
  const charges = new Charges()
  for (let i = valuesFrom[row]!; i < valuesFrom[row + 1]!; i++) charges.addValue(values[i]!)
  charges.add(counter, 0)
  const results = new ChargeResults()
  const resetsMs = new Float64Array(1)
  local.checkWithResets(charges, results, resetsMs, sentMs, 0)
  const own = { levels: results.levels, resetsMs }
  const calls = shared.callsFor('take', { charges, own, rows: [0], leases: [ask], nowMs: sentMs, wallMs })
  if (calls === undefined) return
  try {
    await shared.ask(calls, charges, results)
  } catch {
    return // counted where it happened
  }
  onLease({ key: shared.keyOf(charges, 0), grant: grantOf(calls, 0), level: results.levels[0]!, calls, charges })
}
