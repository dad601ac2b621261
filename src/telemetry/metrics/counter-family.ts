import { CATALOGUE, type MetricName } from './catalogue.ts'
import type { MetricMemory } from './metric-memory.ts'
import { labelled, type MetricValue } from './metric-value.ts'

/** A counter or a gauge by its label values. Series stay once they are there, across bundles too: a counter never goes down. */
export class CounterFamily {
  readonly name: MetricName
  readonly #memory: MetricMemory
  readonly #series = new Map<string, Series>()

  constructor(memory: MetricMemory, name: MetricName) {
    this.name = name
    this.#memory = memory
  }

  series(...values: string[]): Series {
    const key = values.length === 1 ? values[0]! : JSON.stringify(values)
    let series = this.#series.get(key)
    if (series === undefined) {
      series = new Series(this.#memory.own, this.#memory.cellOf(this.name, values))
      this.#series.set(key, series)
    }
    return series
  }

  /** Over all threads. */
  *values(): Generator<MetricValue> {
    const { labels } = CATALOGUE[this.name]
    for (const { values, cell } of this.#memory.entriesOf(this.name)) {
      yield { labels: labelled(labels, values), value: this.#memory.sum(cell) }
    }
  }
}

/** One labelled count of this thread. Frequent counters keep a reference to it. */
export class Series {
  readonly #cells: Float64Array
  readonly #cell: number

  constructor(cells: Float64Array, cell: number) {
    this.#cells = cells
    this.#cell = cell
  }

  get count(): number {
    return this.#cells[this.#cell]!
  }

  set count(value: number) {
    this.#cells[this.#cell] = value
  }
}
