import type { Limit } from '../../../src/limiter/limit.ts'
import type { Charges, Counter } from '../../../src/store/charges.ts'
import type { CounterSpec, CounterStore, StoreStats } from '../../../src/store/counter-store.ts'

type BucketLimit = Extract<Limit, { kind: 'bucket' }>

const DAY_MS = 86_400_000

/**
 * What a store must do, in the plainest words there are: a Map, and every key as text. Grows without bound. The rows of
 * one decision are about different keys.
 */
export class MapStore implements CounterStore {
  readonly #buckets = new Map<string, BucketState>()
  readonly #usedOnDay = new Map<string, number>()

  open(spec: CounterSpec): Counter {
    return new MapCounter(spec)
  }

  takeAll(charges: Charges, nowMs: number, wallMs: number): boolean {
    charges.takenWallMs = wallMs
    charges.takenFrom = 'own'
    const takes = this.#lookAtAll(charges, nowMs, wallMs)
    if (takes.length < charges.length) return false
    for (let row = 0; row < charges.length; row++) {
      if (charges.costs[row] === 0) continue
      charges.levels[row]! -= charges.costs[row]!
      takes[row]!()
    }
    return true
  }

  checkAll(charges: Charges, nowMs: number, wallMs: number): boolean {
    return this.#lookAtAll(charges, nowMs, wallMs).length === charges.length
  }

  settleAll(charges: Charges, nowMs: number, wallMs: number): void {
    const { takenWallMs } = charges
    for (let row = 0; row < charges.length; row++) {
      const counter = charges.counters[row] as MapCounter
      const values = charges.values.slice(charges.valuesFrom[row], charges.valuesFrom[row + 1])
      const cost = charges.costs[row]!
      if (cost === 0) continue
      if (counter.limit.kind === 'bucket') {
        const { key, state } = this.#bucketNow(counter, values, nowMs)
        // What nobody has taken from has nothing to get back.
        if (cost > 0 && !this.#buckets.has(key)) continue
        this.#buckets.set(key, { ...state, level: Math.min(counter.limit.burst, state.level + cost) })
      } else {
        const key = JSON.stringify([counter.identity, values, dayOf(takenWallMs)])
        if (!this.#usedOnDay.has(key) && (cost > 0 || dayOf(takenWallMs) !== dayOf(wallMs))) continue
        this.#usedOnDay.set(key, Math.max(0, (this.#usedOnDay.get(key) ?? 0) - cost))
      }
    }
  }

  stats(): StoreStats {
    return { slots: Number.POSITIVE_INFINITY, occupiedSlots: this.#buckets.size + this.#usedOnDay.size, forcedEvictions: 0 }
  }

  /** For each row that would pass, how to take it. */
  #lookAtAll(charges: Charges, nowMs: number, wallMs: number): (() => void)[] {
    const takes: (() => void)[] = []
    for (let row = 0; row < charges.length; row++) {
      const counter = charges.counters[row] as MapCounter
      const values = charges.values.slice(charges.valuesFrom[row], charges.valuesFrom[row + 1])
      const cost = charges.costs[row]!
      const isBucket = counter.limit.kind === 'bucket'
      const look = isBucket ? this.#lookAtBucket(counter, values, cost, nowMs) : this.#lookAtDay(counter, values, cost, wallMs)
      const { level, waitMs, take } = look
      charges.levels[row] = level
      charges.waitsMs[row] = waitMs
      if (waitMs === 0) takes.push(take)
    }
    return takes
  }

  #lookAtBucket(counter: MapCounter, values: string[], cost: number, nowMs: number): Look {
    const { key, state } = this.#bucketNow(counter, values, nowMs)
    const { level, limit } = state
    const waitMs = level >= cost || cost === 0 ? 0 : cost > limit.burst ? Number.POSITIVE_INFINITY : (cost - level) / limit.tokensPerMs
    return { level, waitMs, take: () => this.#buckets.set(key, { ...state, level: level - cost }) }
  }

  #bucketNow(counter: MapCounter, values: string[], nowMs: number): { key: string; state: BucketState } {
    const limit = counter.limit as BucketLimit
    const key = JSON.stringify([counter.identity, values])
    let state = this.#buckets.get(key) ?? { level: limit.burst, atMs: nowMs, limit }
    // Until the change, tokens came back as the limit before it said.
    if (state.atMs < counter.sinceMs && !isSame(state.limit, limit)) state = refilled(state, counter.sinceMs)
    return { key, state: refilled({ ...state, limit }, nowMs) }
  }

  #lookAtDay(counter: MapCounter, values: string[], cost: number, wallMs: number): Look {
    const { tokensPerDay } = counter.limit as Extract<Limit, { kind: 'day' }>
    const day = dayOf(wallMs)
    const key = JSON.stringify([counter.identity, values, day])
    const used = this.#usedOnDay.get(key) ?? 0
    const fits = cost === 0 || used + cost <= tokensPerDay
    const waitMs = fits ? 0 : cost > tokensPerDay ? Number.POSITIVE_INFINITY : (day + 1) * DAY_MS - wallMs
    return { level: Math.max(0, tokensPerDay - used), waitMs, take: () => this.#usedOnDay.set(key, used + cost) }
  }
}

interface BucketState {
  readonly level: number
  readonly atMs: number
  /** The limit that held when the level was true. */
  readonly limit: BucketLimit
}

interface Look {
  readonly level: number
  readonly waitMs: number
  readonly take: () => void
}

class MapCounter implements Counter {
  readonly limit: Limit
  readonly identity: readonly string[]
  readonly sinceMs: number

  constructor({ identity, limit, sinceMs }: CounterSpec) {
    this.identity = identity
    this.limit = limit
    this.sinceMs = sinceMs
  }
}

/** Time never runs backwards for a bucket: what was refilled once is not refilled again. */
function refilled({ level, atMs, limit }: BucketState, nowMs: number): BucketState {
  const later = Math.max(atMs, nowMs)
  return { level: Math.min(limit.burst, level + (later - atMs) * limit.tokensPerMs), atMs: later, limit }
}

function isSame(a: BucketLimit, b: BucketLimit): boolean {
  return a.tokensPerMs === b.tokensPerMs && a.burst === b.burst
}

function dayOf(wallMs: number): number {
  return Math.floor(wallMs / DAY_MS)
}
