import type { BucketLimit } from '../../../limiter/limit.ts'
import type { Clock } from '../../../time/clock.ts'
import type { EmbeddedStore } from '../../table/embedded-store.ts'
import { inBatches } from '../script-calls.ts'
import type { SharedCounters } from '../shared-counters.ts'
import { type BlockLocator, takeOut } from './key-leases.ts'

export interface LeaseListener {
  /** Called when a lease is added, and when its unused tokens go back. */
  onHeld(change: 1 | -1): void
  /** 'lost' means neither used nor given back. */
  onTokens(what: 'leased' | 'given_back' | 'lost', tokens: number): void
}

export interface LeaseReturnsParts {
  readonly local: Pick<EmbeddedStore, 'table' | 'isResetSince' | 'creditLease'>
  readonly shared: Pick<SharedCounters, 'giveBackLease'>
  readonly leaseMs: number
  readonly clock: Pick<Clock, 'nowMs'>
  readonly listener: LeaseListener
}

/** A block in the table that this thread fetched. */
export interface Lease extends BlockLocator {
  readonly key: string
  /** The tag of the key's own counter has this low word, and the high word of the block. */
  readonly low: number
  readonly limit: BucketLimit
  /** When the block was granted, by the clock of Redis. */
  readonly leasedMs: number
  /** When it was charged to this process's own counter, on the monotonic clock. */
  readonly chargedMs: number
}

/**
 * Gives back what is left of leases, late in their lives and when the thread ends. Until a lease ends, decisions that Redis refuses put
 * tokens back into its block; tokens that were put there since are given back at the end.
 */
export class LeaseReturns {
  readonly #parts: LeaseReturnsParts
  /** Leases that have not been given back, roughly in the order in which they are due. */
  #leases: Lease[] = []
  /** Leases whose unused tokens were given back, kept until they end, in the same order. */
  #emptied: Lease[] = []
  readonly #pending = new Set<Promise<void>>()

  constructor(parts: LeaseReturnsParts) {
    this.#parts = parts
  }

  /** Whether there is nothing to give back, now or later. */
  get isEmpty(): boolean {
    return this.#leases.length === 0 && this.#emptied.length === 0
  }

  add(lease: Lease): void {
    this.#leases.push(lease)
    this.#parts.listener.onHeld(1)
  }

  /** Gives back what is left of old leases. Never rejects. */
  async sweep(nowMs: number): Promise<void> {
    const old = removeEndingBy(nowMs + (1 - KEPT_SHARE) * this.#parts.leaseMs, this.#leases)
    this.#empty(old)
    const ended = removeEndingBy(nowMs, this.#emptied)
    await this.#tracked(this.#giveBackRests(old, ended))
  }

  /** Gives back all that is left. Resolves when no call is pending. */
  async endAll(): Promise<void> {
    this.#empty(this.#leases.splice(0))
    await this.#giveBackRests([], this.#emptied.splice(0))
    await Promise.all(this.#pending)
  }

  async giveBack(key: string, limit: BucketLimit, tokens: number, leasedMs: number): Promise<void> {
    await this.#tracked(this.#giveBack(key, limit, tokens, leasedMs))
  }

  /** Makes `endAll` wait for this promise. */
  async #tracked(done: Promise<void>): Promise<void> {
    this.#pending.add(done)
    await done
    this.#pending.delete(done)
  }

  async #giveBack(key: string, limit: BucketLimit, tokens: number, leasedMs: number): Promise<void> {
    const isDone = await this.#parts.shared.giveBackLease(key, limit, tokens, leasedMs)
    this.#parts.listener.onTokens(isDone ? 'given_back' : 'lost', tokens)
  }

  #empty(leases: readonly Lease[]): void {
    for (const lease of leases) {
      this.#emptied.push(lease)
      this.#parts.listener.onHeld(-1)
    }
  }

  async #giveBackRests(old: readonly Lease[], ended: readonly Lease[]): Promise<void> {
    await inBatches(old, (lease) => this.#giveBackRest(lease, false))
    await inBatches(ended, (lease) => this.#giveBackRest(lease, true))
  }

  async #giveBackRest(lease: Lease, isEnd: boolean): Promise<void> {
    const { key, limit, set, leasedMs } = lease
    const { clock, local } = this.#parts
    const { table } = local
    const nowMs = clock.nowMs()
    table.lock(set)
    const tokens = takeOut(table, lease, isEnd)
    if (tokens > 0) this.#credit(lease, tokens, nowMs)
    table.unlock(set)
    if (tokens > 0) await this.giveBack(key, limit, tokens, leasedMs)
  }

  /**
   * Credits unused tokens to this process's own counter, whether or not Redis can be told: less what refill may have replaced since the
   * charge, as Redis does, but at an age that is no more than Redis's. So the own count is not the lower one of the two.
   */
  #credit(lease: Lease, tokens: number, nowMs: number): void {
    const { local } = this.#parts
    const { set, low, high, limit, leasedMs, chargedMs } = lease
    const unused = tokens - (nowMs - chargedMs) * limit.tokensPerMs
    if (unused > 0 && !local.isResetSince(set, low, high, leasedMs)) local.creditLease(lease, unused)
  }
}

function removeEndingBy(endMs: number, leases: Lease[]): Lease[] {
  const firstLater = leases.findIndex((lease) => lease.endMs > endMs)
  return leases.splice(0, firstLater < 0 ? leases.length : firstLater)
}

/*
 * These functions decide how much to lease and when, and how long a refusal holds. Leased tokens that are not used are missing elsewhere in
 * the fleet until they are given back, but each lease costs a round trip: leasing the tokens for half a lease's life is the compromise.
 */

/** The longest that a refusal waits for more than one token. */
const MAX_WAIT_FOR_MORE_MS = 125

/** The share of its life after which the rest of a lease is given back. At the expected rate, a lease is used up after half of its life. */
const KEPT_SHARE = 0.75

/**
 * Returns how many tokens to lease: as many as half a lease's life uses at the recent rate, but at most twice as many as were used, so that
 * a key that is new or was idle starts small. Returns 0 if less than one would be used.
 */
export function tokensToLease(usedTokens: number, elapsedMs: number, leaseMs: number): number {
  return Math.min(usedIn(leaseMs / 2, usedTokens, elapsedMs), Math.floor(usedTokens * 2))
}

/** Returns whether the rest will be used up so soon that the next lease is fetched now. Slow keys fetch one only when they need it. */
export function isRunningOut(leftTokens: number, usedTokens: number, elapsedMs: number, leaseMs: number): boolean {
  return leftTokens < usedIn(leaseMs / 8, usedTokens, elapsedMs)
}

/**
 * Returns how long a refusal holds, if `level` was left: until there is one token or, if many are refilled within a short time, until there
 * are enough to be worth a round trip. A refusal never holds until the bucket is full, because refill would be lost, nor longer than a
 * lease lives, because others may give back what they do not use.
 */
export function refusalMs(level: number, wantedTokens: number, tokensPerMs: number, burst: number, leaseMs: number): number {
  // Redis leases at most half of what is left.
  const worthwhile = Math.min(1 + wantedTokens, burst / 4, tokensPerMs * Math.min(leaseMs / 8, MAX_WAIT_FOR_MORE_MS))
  return Math.min((Math.max(worthwhile, 1) - level) / tokensPerMs, leaseMs)
}

function usedIn(spanMs: number, usedTokens: number, elapsedMs: number): number {
  return Math.floor((usedTokens * spanMs) / Math.max(elapsedMs, 1))
}
