import { CATALOGUE, type HistogramName, type MetricName } from './catalogue.ts'
import { type MetricMemory, OVERFLOW_CELL } from './metric-memory.ts'

/** Series by the value of each label in turn, which are found faster than by a text of all values. */
interface Branch {
  series?: Series
  next?: Map<string, Branch>
}

/** A counter or gauge by label values. Series stay once they exist, even across bundles, so a counter never goes down. */
export class CounterFamily {
  readonly name: MetricName
  readonly #memory: MetricMemory
  readonly #root: Branch = {}

  constructor(memory: MetricMemory, name: MetricName) {
    this.name = name
    this.#memory = memory
  }

  series(...values: string[]): Series {
    let branch = this.#root
    for (const value of values) {
      branch.next ??= new Map()
      let next = branch.next.get(value)
      if (next === undefined) {
        next = {}
        branch.next.set(value, next)
      }
      branch = next
    }
    branch.series ??= new Series(this.#memory.own, this.#memory.cellOf(this.name, values))
    return branch.series
  }

  /** Sums over all threads. */
  *values(): Generator<MetricValue> {
    const { labels } = CATALOGUE[this.name]
    for (const { values, cell } of this.#memory.entriesOf(this.name)) {
      yield { labels: labelled(labels, values), value: this.#memory.sum(cell) }
    }
  }
}

/** One labelled count of this thread. Code that counts often keeps a reference to it. */
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

  /** Sets a gauge. One that found no room is not shown, because the overflow cell only ever rises. */
  measure(value: number): void {
    if (this.#cell !== OVERFLOW_CELL) this.#cells[this.#cell] = value
  }
}

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
    // Each bucket has a cell, and there is one for values above all bounds and one for the sum.
    return new HistogramSeries(this.#memory.own, this.#memory.cellOf(this.name, values, this.#bounds.length + 2), this.#bounds)
  }

  /** Sums over all threads. */
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

/** One labelled histogram of this thread. An observation costs a short walk and two additions. */
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
      // The overflow cell is a single one; the cells after it belong to other series.
      this.#cells[OVERFLOW_CELL]! += 1
      return
    }
    let bucket = 0
    while (bucket < bounds.length && value > bounds[bucket]!) bucket++
    this.#cells[this.#cell + bucket]! += 1
    this.#cells[this.#cell + bounds.length + 1]! += value
  }
}

/** One line of the exposition. */
export interface MetricValue {
  /** Set if it differs from the metric's name, as in the lines of a histogram. */
  readonly metricName?: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

function labelled(names: readonly string[], values: readonly string[]): Record<string, string> {
  const labels: Record<string, string> = {}
  for (let i = 0; i < names.length; i++) labels[names[i]!] = values[i]!
  return labels
}

/** Returns the value of a metric without labels. */
export function single(value: number): MetricValue[] {
  return [{ labels: {}, value }]
}
