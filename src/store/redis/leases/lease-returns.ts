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

/** Gives back what is left of leases: late in their lives, and when the thread ends. */
export class LeaseReturns {
  readonly #table: SharedTable
  readonly #shared: SharedCounters
  readonly #leaseMs: number
  readonly #listener: LeaseListener
  /** Roughly in the order in which they are due. */
  #leases: Lease[] = []
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
    const dueEndMs = nowMs + (1 - KEPT_SHARE) * this.#leaseMs
    const firstYoung = this.#leases.findIndex(({ endMs }) => endMs > dueEndMs)
    await this.#tracked(this.#endAll(this.#leases.splice(0, firstYoung < 0 ? this.#leases.length : firstYoung)))
  }

  /** Gives back all that is left. Resolves when nothing is pending. */
  async endAll(): Promise<void> {
    await this.#endAll(this.#leases.splice(0))
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

  async #endAll(leases: readonly Lease[]): Promise<void> {
    await inBatches(leases, (lease) => this.#end(lease))
  }

  async #end(lease: Lease): Promise<void> {
    const { key, limit, set, leasedMs } = lease
    this.#listener.onHeld(-1)
    this.#table.lock(set)
    const tokens = takeOut(this.#table, lease)
    this.#table.unlock(set)
    if (tokens > 0) await this.giveBack(key, limit, tokens, leasedMs)
  }
}
