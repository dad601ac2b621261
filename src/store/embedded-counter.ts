import type { Algorithm } from '../limiter/algorithms/algorithm.ts'
import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { type Limit, WINDOW, type WindowLimit } from '../limiter/limit.ts'
import type { Counter } from './charges.ts'
import type { CounterSpec } from './counter-store.ts'
import type { HashState } from './half-sip-hash.ts'

/** So that a record that was just written is from before. */
const INSTANT_MS = 0.001

/** Where a table keeps the subjects of a counter. */
export interface CounterPlace {
  /** The hash of the identity, with which the hash of each subject begins. */
  readonly prefix: HashState
  /** The number by which records are known as those of this rule. */
  readonly rule: number
}

/** A counter whose subjects are kept in a table. */
export class EmbeddedCounter implements Counter, CounterPlace {
  readonly identity: readonly string[]
  readonly limit: Limit
  readonly algorithm: Algorithm<Limit>
  readonly sinceMs: number
  /** Until then, a record may be written under the limit from before an override, although that is in force; by default `sinceMs`. */
  readonly lateMs: number
  /** Whether it has neither slices nor warnings, as most. */
  readonly isPlain: boolean
  /** The limit, if it is one that warns. */
  readonly warning: WindowLimit | undefined
  readonly prefix: HashState
  readonly rule: number

  readonly #ruleSize: number | undefined

  /** `lateByMs`: how long takes may still be charged under the limit from before an override. */
  constructor(spec: CounterSpec, place: CounterPlace, lateByMs = 0) {
    this.identity = spec.identity
    this.limit = spec.limit
    this.algorithm = algorithmOf(spec.limit)
    this.sinceMs = spec.sinceMs
    this.lateMs = spec.sinceMs + lateByMs
    this.#ruleSize = spec.override && Math.fround(spec.override.ruleSize)
    this.warning = warningLimit(spec.limit)
    this.isPlain = !this.algorithm.isSliced && this.warning === undefined
    this.prefix = place.prefix
    this.rule = place.rule
  }

  /** Since when its limit holds for a record of `size` that was last written at `atMs`, before `lateMs`. */
  sinceFor(atMs: number, size: number): number {
    const isLate = atMs >= this.sinceMs && size === this.#ruleSize
    return isLate ? atMs + INSTANT_MS : this.sinceMs
  }
}

function warningLimit(limit: Limit): WindowLimit | undefined {
  return limit.kind === WINDOW && limit.warnings !== undefined ? limit : undefined
}
