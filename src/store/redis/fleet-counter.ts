import type { CounterSpec } from '../counter-store.ts'
import { EmbeddedCounter } from '../embedded-store.ts'
import type { HashState } from '../half-sip-hash.ts'
import type { SharedCounter } from './shared-counters.ts'

/** A counter that the fleet shares, and that this process keeps too. */
export class FleetCounter extends EmbeddedCounter implements SharedCounter {
  readonly identity: readonly string[]
  readonly isPlain: boolean

  constructor(spec: CounterSpec, prefix: HashState) {
    super(spec, prefix)
    this.identity = spec.identity
    this.isPlain = spec.isPlain ?? false
  }
}
