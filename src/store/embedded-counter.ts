import type { Algorithm } from '../limiter/algorithms/algorithm.ts'
import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { type Limit, WINDOW, type WindowLimit } from '../limiter/limit.ts'
import type { Counter } from './charges.ts'
import type { CounterSpec } from './counter-store.ts'
import type { HashState } from './half-sip-hash.ts'

/** A counter whose subjects are kept in a table. */
export class EmbeddedCounter implements Counter {
  readonly identity: readonly string[]
  readonly limit: Limit
  readonly algorithm: Algorithm<Limit>
  readonly sinceMs: number
  /** Whether it has neither slices nor warnings, as most. */
  readonly isPlain: boolean
  /** The limit, if it is one that warns. */
  readonly warning: WindowLimit | undefined
  /** The hash of the identity, with which the hash of each subject begins. */
  readonly prefix: HashState

  constructor(spec: CounterSpec, prefix: HashState) {
    this.identity = spec.identity
    this.limit = spec.limit
    this.algorithm = algorithmOf(spec.limit)
    this.sinceMs = spec.sinceMs
    this.warning = warningLimit(spec.limit)
    this.isPlain = !this.algorithm.isSliced && this.warning === undefined
    this.prefix = prefix
  }
}

function warningLimit(limit: Limit): WindowLimit | undefined {
  return limit.kind === WINDOW && limit.warnings !== undefined ? limit : undefined
}
