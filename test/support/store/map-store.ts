import {
  BUCKET,
  type BucketLimit,
  IN_FLIGHT,
  type InFlightLimit,
  type Limit,
  WINDOW,
  type WindowLimit,
} from '../../../src/limiter/limit.ts'
import type { ChargeResults, Charges, Counter, Taken } from '../../../src/store/charges.ts'
import { type CounterLocator, identityDigest } from '../../../src/store/counter-locator.ts'
import type { CounterSpec, CounterStore, OnWarning, Purpose, StoreStats } from '../../../src/store/counter-store.ts'

/** Less than any two resets of a test are apart. */
const TICK_MS = 0.001

/**
 * What a store must do, in the plainest words there are: a Map, and every key as text. Grows without bound. The rows of
 * one decision are about different keys.
 */
export class MapStore implements CounterStore {
  readonly #buckets = new Map<string, BucketState>()
  readonly #usedInWindow = new Map<string, number>()
  /** The holds of each key by the number of their slice. */
  readonly #holds = new Map<string, Map<number, number>>()
  /** The highest percentage that each window was warned of. */
  readonly #warned = new Map<string, number>()
  /** When each key was reset last. */
  readonly #resets = new Map<string, number>()
  #lastResetMs = Number.NEGATIVE_INFINITY

  open(spec: CounterSpec): Counter {
    return new MapCounter(spec)
  }

  takeAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number, purpose: Purpose = 'decision'): boolean {
    results.wallMs = wallMs
    results.momentMs = wallMs > this.#lastResetMs ? wallMs : this.#lastResetMs + TICK_MS
    results.takenFrom = 'local'
    const takes = this.#lookAtAll(charges, results, nowMs, wallMs, purpose)
    if (takes.length < charges.length) return false
    for (let row = 0; row < charges.length; row++) {
      if (charges.costs[row] === 0) continue
      results.levels[row]! -= charges.costs[row]!
      takes[row]!()
      const counter = charges.counters[row] as MapCounter
      const percent = this.#newWarning(counter, keyOf(counter, valuesOf(charges, row), wallMs))
      if (percent > 0) results.warn(row, percent)
    }
    return true
  }

  checkAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): boolean {
    results.wallMs = wallMs
    return this.#lookAtAll(charges, results, nowMs, wallMs).length === charges.length
  }

  settleAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number, onWarning?: OnWarning): void {
    const locators = charges.locators ?? this.locatorsOf(charges, taken)
    for (const [row, { tag: key }] of locators.entries()) this.#settle(charges, row, key, taken, nowMs, wallMs, onWarning)
  }

  /** A model hides nothing: the tag is the key. */
  locatorsOf(charges: Charges, { wallMs }: Taken): CounterLocator[] {
    return Array.from({ length: charges.length }, (_, row) => {
      const counter = charges.counters[row] as MapCounter
      return { identity: identityDigest(counter.identity), tag: keyOf(counter, valuesOf(charges, row), wallMs), key: undefined }
    })
  }

  settleLocated(charges: Charges, _taker: string | undefined, taken: Taken, nowMs: number, wallMs: number, onWarning?: OnWarning): true {
    this.settleAll(charges, taken, nowMs, wallMs, onWarning)
    return true
  }

  renewLocated(charges: Charges, _taker: string | undefined, taken: Taken, nowMs: number, wallMs: number): Taken {
    return this.renewAll(charges, taken, nowMs, wallMs)
  }

  renewAll(charges: Charges, taken: Taken, _nowMs: number, wallMs: number): Taken {
    const keys = (charges.locators ?? this.locatorsOf(charges, { ...taken, wallMs })).map(({ tag }) => tag)
    if (keys.some((key) => taken.momentMs <= (this.#resets.get(key) ?? -1))) return taken
    for (const [row, key] of keys.entries()) {
      const counter = charges.counters[row] as MapCounter
      if (counter.limit.kind !== IN_FLIGHT) continue
      if (taken.from !== 'none') this.#addHolds(counter, key, -charges.costs[row]!, taken.wallMs)
      const slices = this.#slicesOf(key)
      const slice = Math.floor(wallMs / counter.limit.sliceMs)
      slices.set(slice, (slices.get(slice) ?? 0) + charges.costs[row]!)
    }
    return { wallMs, momentMs: wallMs > this.#lastResetMs ? wallMs : this.#lastResetMs + TICK_MS, from: 'local' }
  }

  resetAll(charges: Charges, _nowMs: number, wallMs: number): void {
    for (let row = 0; row < charges.length; row++) {
      const key = keyOf(charges.counters[row] as MapCounter, valuesOf(charges, row), wallMs)
      this.#buckets.delete(key)
      this.#usedInWindow.delete(key)
      this.#holds.delete(key)
      this.#warned.delete(key)
      this.#lastResetMs = Math.max(wallMs, this.#lastResetMs + TICK_MS)
      this.#resets.set(key, this.#lastResetMs)
    }
  }

  #newWarning({ limit }: MapCounter, key: string): number {
    if (limit.kind !== WINDOW) return 0
    const used = this.#usedInWindow.get(key) ?? 0
    const reached = Math.max(0, ...(limit.warnings ?? []).filter(({ tokens }) => used >= tokens).map(({ percent }) => percent))
    if (reached <= (this.#warned.get(key) ?? 0)) return 0
    this.#warned.set(key, reached)
    return reached
  }

  stats(): StoreStats {
    return { slots: Number.POSITIVE_INFINITY, occupiedSlots: this.#buckets.size + this.#usedInWindow.size, forcedEvictions: 0 }
  }

  #settle(charges: Charges, row: number, key: string, taken: Taken, nowMs: number, wallMs: number, onWarning?: OnWarning): void {
    const counter = charges.counters[row] as MapCounter
    const cost = charges.costs[row]!
    if (cost === 0 || taken.momentMs <= (this.#resets.get(key) ?? -1)) return
    if (counter.limit.kind === BUCKET) {
      const state = this.#bucketNow(counter, key, nowMs)
      // A counter from which nothing was taken is full.
      if (cost > 0 && !this.#buckets.has(key)) return
      this.#buckets.set(key, { ...state, level: Math.min(state.limit.burst, state.level + cost) })
    } else if (counter.limit.kind === IN_FLIGHT) {
      this.#addHolds(counter, key, -cost, taken.wallMs)
    } else {
      const isOver = windowOf(counter, taken.wallMs) !== windowOf(counter, wallMs)
      if (!this.#usedInWindow.has(key) && (cost > 0 || isOver)) return
      this.#usedInWindow.set(key, Math.max(0, (this.#usedInWindow.get(key) ?? 0) - cost))
      const percent = cost < 0 ? this.#newWarning(counter, key) : 0
      if (percent > 0) onWarning?.(row, percent)
    }
  }

  /** For each row that would pass, how to take it. */
  #lookAtAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number, purpose: Purpose = 'decision'): (() => void)[] {
    const takes: (() => void)[] = []
    results.growTo(charges.length)
    for (let row = 0; row < charges.length; row++) {
      const counter = charges.counters[row] as MapCounter
      const values = valuesOf(charges, row)
      const cost = charges.costs[row]!
      const { level, waitMs, take } = this.#lookAt(counter, values, cost, nowMs, wallMs)
      results.levels[row] = level
      results.waitsMs[row] = waitMs
      // What a reservation grows by is charged to its buckets in any case.
      if (waitMs === 0 || (purpose === 'growth' && counter.limit.kind === BUCKET)) takes.push(take)
    }
    return takes
  }

  #lookAt(counter: MapCounter, values: string[], cost: number, nowMs: number, wallMs: number): Look {
    if (counter.limit.kind === BUCKET) return this.#lookAtBucket(counter, values, cost, nowMs)
    if (counter.limit.kind === IN_FLIGHT) return this.#lookAtHolds(counter, values, cost, wallMs)
    return this.#lookAtWindow(counter, values, cost, wallMs)
  }

  /** The holds of this slice and of the seven before it count. */
  #lookAtHolds(counter: MapCounter, values: string[], cost: number, wallMs: number): Look {
    const { max, sliceMs } = counter.limit as InFlightLimit
    const slices = this.#slicesOf(keyOf(counter, values, 0))
    const slice = Math.floor(wallMs / sliceMs)
    let level = max
    for (const [number, held] of slices) if (number > slice - 8 && number <= slice) level -= held
    const waitMs = level >= cost || cost === 0 ? 0 : cost > max ? Number.POSITIVE_INFINITY : 1000
    return { level, waitMs, take: () => slices.set(slice, (slices.get(slice) ?? 0) + cost) }
  }

  #slicesOf(key: string): Map<number, number> {
    const slices = this.#holds.get(key) ?? new Map<number, number>()
    this.#holds.set(key, slices)
    return slices
  }

  /** To a slice that has holds already. */
  #addHolds(counter: MapCounter, key: string, holds: number, wallMs: number): void {
    const slices = this.#slicesOf(key)
    const slice = Math.floor(wallMs / (counter.limit as InFlightLimit).sliceMs)
    if (slices.has(slice)) slices.set(slice, Math.max(0, slices.get(slice)! + holds))
  }

  #lookAtBucket(counter: MapCounter, values: string[], cost: number, nowMs: number): Look {
    const key = keyOf(counter, values, 0)
    const state = this.#bucketNow(counter, key, nowMs)
    const { level } = state
    const limit = counter.limit as BucketLimit
    const waitMs = limit.canOverdraw ? overdrawnMs(level, limit) : shortMs(level, cost, limit)
    return { level, waitMs, take: () => this.#buckets.set(key, { ...state, level: level - cost }) }
  }

  #bucketNow(counter: MapCounter, key: string, nowMs: number): BucketState {
    const limit = counter.limit as BucketLimit
    let state = this.#buckets.get(key) ?? { level: limit.burst, atMs: nowMs, limit }
    // A decision that began before the limit changed, and comes after one that began later, is done under the changed limit.
    if (state.atMs > nowMs && !isSame(state.limit, limit)) return state
    // Until the change, tokens came back as the limit before it said.
    if (state.atMs < counter.sinceMs && !isSame(state.limit, limit)) {
      state = refilled(state, counter.sinceMs)
      // What was spent stays spent of an override's larger limit.
      const raise = limit.burst - Math.max(counter.ruleSize, state.limit.burst)
      state = { ...state, level: state.level + Math.max(0, raise) }
    }
    return refilled({ ...state, limit }, nowMs)
  }

  #lookAtWindow(counter: MapCounter, values: string[], cost: number, wallMs: number): Look {
    const { tokens, calendar, canOverdraw } = counter.limit as WindowLimit
    const key = keyOf(counter, values, wallMs)
    const used = this.#usedInWindow.get(key) ?? 0
    const fits = canOverdraw ? used < tokens : cost === 0 || used + cost <= tokens
    const isNever = cost > tokens && !canOverdraw
    const waitMs = fits ? 0 : isNever ? Number.POSITIVE_INFINITY : calendar.windowAt(wallMs).endMs - wallMs
    return { level: tokens - used, waitMs, take: () => this.#usedInWindow.set(key, used + cost) }
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
  /** Under an override, that of the rule's own limit. */
  readonly ruleSize: number

  constructor({ identity, limit, sinceMs, override }: CounterSpec) {
    this.ruleSize = override?.ruleSize ?? Number.POSITIVE_INFINITY
    this.identity = identity
    this.limit = limit
    this.sinceMs = sinceMs
  }
}

/** Until there is as much as the request takes: in whole milliseconds where rounding alone makes it another number. */
function shortMs(level: number, cost: number, { burst, tokensPerMs }: BucketLimit): number {
  if (level >= cost || cost === 0) return 0
  if (cost > burst) return Number.POSITIVE_INFINITY
  const waitMs = (cost - level) / tokensPerMs
  const wholeMs = Math.round(waitMs)
  return Math.abs(wholeMs - waitMs) < 0.001 && level + wholeMs * tokensPerMs >= cost ? wholeMs : waitMs
}

/** Until there is anything at all, in whole milliseconds after the debt is paid. */
function overdrawnMs(level: number, { tokensPerMs }: BucketLimit): number {
  return level > 0 ? 0 : Math.ceil(-level / tokensPerMs) + 1
}

/** Time never runs backwards for a bucket: what was refilled once is not refilled again. */
function refilled({ level, atMs, limit }: BucketState, nowMs: number): BucketState {
  const later = Math.max(atMs, nowMs)
  return { level: Math.min(limit.burst, level + (later - atMs) * limit.tokensPerMs), atMs: later, limit }
}

function isSame(a: BucketLimit, b: BucketLimit): boolean {
  return a.tokensPerMs === b.tokensPerMs && a.burst === b.burst
}

function valuesOf(charges: Charges, row: number): string[] {
  return charges.values.slice(charges.valuesFrom[row], charges.valuesFrom[row + 1])
}

/** Each window is a counter of its own. */
function keyOf(counter: MapCounter, values: string[], wallMs: number): string {
  const subject = [counter.identity, values]
  return JSON.stringify('calendar' in counter.limit ? [...subject, windowOf(counter, wallMs)] : subject)
}

function windowOf({ limit }: MapCounter, wallMs: number): number {
  return (limit as WindowLimit).calendar.windowAt(wallMs).number
}
