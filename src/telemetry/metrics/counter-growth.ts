import type { MetricName } from './catalogue.ts'
import type { MetricMemory } from './metric-memory.ts'

const ENTRIES_PER_STEP = 500

/** By how much each series of a counter has grown since the last look. Keeps one number for each series. */
export class CounterGrowth {
  readonly #memory: MetricMemory
  readonly #name: MetricName
  /** In the order of the directory, which only ever grows. */
  #before = new Float64Array(0)

  constructor(memory: MetricMemory, name: MetricName) {
    this.#memory = memory
    this.#name = name
  }

  /** Tells of each series that has grown, a part at a time. A series that is new has grown from 0. */
  *steps(onGrowth: (values: readonly string[], by: number) => void): Generator<void> {
    const entries = this.#memory.entriesOf(this.#name)
    const { length } = entries
    if (this.#before.length < length) this.#before = enlarged(this.#before, length)
    for (let i = 0; i < length; i++) {
      const { values, cell } = entries[i]!
      const count = this.#memory.sum(cell)
      const by = count - this.#before[i]!
      if (by > 0) {
        this.#before[i] = count
        onGrowth(values, by)
      }
      if (i % ENTRIES_PER_STEP === ENTRIES_PER_STEP - 1) yield
    }
  }
}

/** With room for as many again: series come one by one. */
function enlarged(counts: Float64Array<ArrayBuffer>, length: number): Float64Array<ArrayBuffer> {
  const larger = new Float64Array(length * 2)
  larger.set(counts)
  return larger
}
