import { CATALOGUE, type HistogramName } from './catalogue.ts'
import type { MetricMemory } from './metric-memory.ts'

/** What a histogram without labels has observed since the last look, by all threads. */
export class HistogramGrowth {
  readonly #memory: MetricMemory
  readonly #name: HistogramName
  readonly #bounds: readonly number[]
  readonly #before: Float64Array
  /** By bucket; the last one is for what lies above all bounds. */
  readonly #grown: Float64Array

  constructor(memory: MetricMemory, name: HistogramName) {
    this.#memory = memory
    this.#name = name
    this.#bounds = CATALOGUE[name].bounds
    this.#before = new Float64Array(this.#bounds.length + 1)
    this.#grown = new Float64Array(this.#bounds.length + 1)
  }

  look(): void {
    const cell = this.#memory.entriesOf(this.#name)[0]?.cell
    for (let bucket = 0; bucket < this.#grown.length; bucket++) {
      const count = cell === undefined ? 0 : this.#memory.sum(cell + bucket)
      this.#grown[bucket] = count - this.#before[bucket]!
      this.#before[bucket] = count
    }
  }

  /** How many were observed before the last look and after the one before it. */
  get count(): number {
    return this.#grown.reduce((sum, count) => sum + count, 0)
  }

  /** Estimated, as Prometheus does: values are taken to be evenly spread in their bucket. Null where nothing was observed. */
  quantile(share: number): number | null {
    const { count } = this
    if (count === 0) return null
    let rest = share * count
    for (let bucket = 0; bucket < this.#bounds.length; bucket++) {
      const inBucket = this.#grown[bucket]!
      const below = bucket === 0 ? 0 : this.#bounds[bucket - 1]!
      if (rest <= inBucket && inBucket > 0) return below + (this.#bounds[bucket]! - below) * (rest / inBucket)
      rest -= inBucket
    }
    return this.#bounds.at(-1)!
  }
}
