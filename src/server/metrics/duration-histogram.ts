const BOUNDS_S = [2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1]

export interface HistogramValue {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Counts durations in fixed buckets: an observation is a short walk and two additions. */
export class DurationHistogram {
  readonly #counts = new Float64Array(BOUNDS_S.length + 1)
  #sumS = 0

  observeMs(durationMs: number): void {
    const seconds = durationMs / 1000
    let bucket = 0
    while (bucket < BOUNDS_S.length && seconds > BOUNDS_S[bucket]!) bucket++
    this.#counts[bucket]! += 1
    this.#sumS += seconds
  }

  values(name: string): HistogramValue[] {
    const values: HistogramValue[] = []
    let total = 0
    this.#counts.forEach((count, bucket) => {
      total += count
      const le = bucket < BOUNDS_S.length ? String(BOUNDS_S[bucket]) : '+Inf'
      values.push({ metricName: `${name}_bucket`, labels: { le }, value: total })
    })
    values.push({ metricName: `${name}_sum`, labels: {}, value: this.#sumS })
    values.push({ metricName: `${name}_count`, labels: {}, value: total })
    return values
  }
}
