import type { BucketLimit } from '../../../limiter/limit.ts'
import type { SharedTable } from '../../shared-table.ts'
import { inBatches } from '../in-batches.ts'
import type { SharedCounters } from '../shared-counters.ts'
import { type BlockPlace, takeOut } from './lease-blocks.ts'
import { KEPT_SHARE } from './lease-sizing.ts'

export interface LeaseListener {
  /** A lease was added, or ended. */
  onHeld(change: 1 | -1): void
  /** 'lost': neither used nor given back. */
  onTokens(what: 'leased' | 'given_back' | 'lost', tokens: number): void
}

/** A block in the table that this thread fetched. */
export interface Lease extends BlockPlace {
  readonly key: string
  readonly limit: BucketLimit
  /** When it was granted, by the clock of Redis. */
  readonly leasedMs: number
}

/**
 * Gives back what is left of leases: late in their lives, and when the thread ends. Until a lease ends, decisions that Redis refuses put tokens
 * back into its block, so what they have put there since goes back at the end.
 */
export class LeaseReturns {
  readonly #table: SharedTable
  readonly #shared: SharedCounters
  readonly #leaseMs: number
  readonly #listener: LeaseListener
  /** Roughly in the order in which they are due. */
  #leases: Lease[] = []
  /** Those whose rest has gone back, until they end. In the same order. */
  #emptied: Lease[] = []
  readonly #pending = new Set<Promise<void>>()

  constructor(table: SharedTable, shared: SharedCounters, leaseMs: number, listener: LeaseListener) {
    this.#table = table
    this.#shared = shared
    this.#leaseMs = leaseMs
    this.#listener = listener
  }

  add(lease: Lease): void {
    this.#leases.push(lease)
    this.#listener.onHeld(1)
  }

  /** Gives back what is left of leases that are old. Never rejects. */
  async sweep(nowMs: number): Promise<void> {
    const old = removeEndingBy(nowMs + (1 - KEPT_SHARE) * this.#leaseMs, this.#leases)
    this.#empty(old)
    const ended = removeEndingBy(nowMs, this.#emptied)
    await this.#tracked(this.#giveBackRests(old, ended))
  }

  /** Gives back all that is left. Resolves when nothing is pending. */
  async endAll(): Promise<void> {
    this.#empty(this.#leases.splice(0))
    await this.#giveBackRests([], this.#emptied.splice(0))
    await Promise.all(this.#pending)
  }

  async giveBack(key: string, limit: BucketLimit, tokens: number, leasedMs: number): Promise<void> {
    await this.#tracked(this.#giveBack(key, limit, tokens, leasedMs))
  }

  /** `endAll` waits for it. */
  async #tracked(done: Promise<void>): Promise<void> {
    this.#pending.add(done)
    await done
    this.#pending.delete(done)
  }

  async #giveBack(key: string, limit: BucketLimit, tokens: number, leasedMs: number): Promise<void> {
    const isDone = await this.#shared.giveBackLease(key, limit, tokens, leasedMs)
    this.#listener.onTokens(isDone ? 'given_back' : 'lost', tokens)
  }

  #empty(leases: readonly Lease[]): void {
    for (const lease of leases) {
      this.#emptied.push(lease)
      this.#listener.onHeld(-1)
    }
  }

  async #giveBackRests(old: readonly Lease[], ended: readonly Lease[]): Promise<void> {
    await inBatches(old, (lease) => this.#giveBackRest(lease, false))
    await inBatches(ended, (lease) => this.#giveBackRest(lease, true))
  }

  async #giveBackRest(lease: Lease, isEnd: boolean): Promise<void> {
    const { key, limit, set, leasedMs } = lease
    this.#table.lock(set)
    const tokens = takeOut(this.#table, lease, isEnd)
    this.#table.unlock(set)
    if (tokens > 0) await this.giveBack(key, limit, tokens, leasedMs)
  }
}

function removeEndingBy(endMs: number, leases: Lease[]): Lease[] {
  const firstLater = leases.findIndex((lease) => lease.endMs > endMs)
  return leases.splice(0, firstLater < 0 ? leases.length : firstLater)
}
