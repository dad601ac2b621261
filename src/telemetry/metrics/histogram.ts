import { CATALOGUE, type HistogramName } from './catalogue.ts'
import { type MetricMemory, OVERFLOW_CELL } from './metric-memory.ts'
import { labelled, type MetricValue } from './metric-value.ts'

/** Counts values in fixed buckets, by label values. */
export class Histogram {
  readonly name: HistogramName
  readonly #memory: MetricMemory
  readonly #bounds: readonly number[]

  constructor(memory: MetricMemory, name: HistogramName) {
    this.name = name
    this.#memory = memory
    this.#bounds = CATALOGUE[name].bounds
  }

  series(...values: string[]): HistogramSeries {
    // A cell for each bucket, one for what lies above them, one for the sum
    return new HistogramSeries(this.#memory.own, this.#memory.cellOf(this.name, values, this.#bounds.length + 2), this.#bounds)
  }

  /** Over all threads. */
  *values(): Generator<MetricValue> {
    const { name } = this
    for (const { values, cell } of this.#memory.entriesOf(name)) {
      const labels = labelled(CATALOGUE[name].labels, values)
      let total = 0
      for (let bucket = 0; bucket <= this.#bounds.length; bucket++) {
        total += this.#memory.sum(cell + bucket)
        const le = bucket < this.#bounds.length ? String(this.#bounds[bucket]) : '+Inf'
        yield { metricName: `${name}_bucket`, labels: { ...labels, le }, value: total }
      }
      yield { metricName: `${name}_sum`, labels, value: this.#memory.sum(cell + this.#bounds.length + 1) }
      yield { metricName: `${name}_count`, labels, value: total }
    }
  }
}

/** An observation is a short walk and two additions. */
export class HistogramSeries {
  readonly #cells: Float64Array
  readonly #cell: number
  readonly #bounds: readonly number[]

  constructor(cells: Float64Array, cell: number, bounds: readonly number[]) {
    this.#cells = cells
    this.#cell = cell
    this.#bounds = bounds
  }

  observe(value: number): void {
    const bounds = this.#bounds
    if (this.#cell === OVERFLOW_CELL) {
      // The overflow cell is a single one; the cells behind it belong to other series.
      this.#cells[OVERFLOW_CELL]! += 1
      return
    }
    let bucket = 0
    while (bucket < bounds.length && value > bounds[bucket]!) bucket++
    this.#cells[this.#cell + bucket]! += 1
    this.#cells[this.#cell + bounds.length + 1]! += value
  }
}
