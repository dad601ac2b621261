export interface HistogramValue {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Counts values in fixed buckets: an observation is a short walk and two additions. */
export class Histogram {
  readonly #bounds: readonly number[]
  readonly #counts: Float64Array
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    const bounds = this.#bounds
    let bucket = 0
    while (bucket < bounds.length && value > bounds[bucket]!) bucket++
    this.#counts[bucket]! += 1
    this.#sum += value
  }

  values(name: string, labels: Readonly<Record<string, string>> = {}): HistogramValue[] {
    const values: HistogramValue[] = []
    let total = 0
    this.#counts.forEach((count, bucket) => {
      total += count
      const le = bucket < this.#bounds.length ? String(this.#bounds[bucket]) : '+Inf'
      values.push({ metricName: `${name}_bucket`, labels: { ...labels, le }, value: total })
    })
    values.push({ metricName: `${name}_sum`, labels, value: this.#sum })
    values.push({ metricName: `${name}_count`, labels, value: total })
    return values
  }
}
