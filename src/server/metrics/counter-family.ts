/** One labelled count. Whoever counts often keeps it at hand. */
export interface Series {
  readonly labels: Readonly<Record<string, string>>
  count: number
}

/** A counter by its label values. Series stay once they are there, across bundles too: a counter never goes down. */
export class CounterFamily {
  readonly #labelNames: readonly string[]
  readonly #series = new Map<string, Series>()

  constructor(labelNames: readonly string[]) {
    this.#labelNames = labelNames
  }

  series(...values: string[]): Series {
    const key = JSON.stringify(values)
    let series = this.#series.get(key)
    if (series === undefined) {
      series = { labels: Object.fromEntries(this.#labelNames.map((name, i) => [name, values[i]!])), count: 0 }
      this.#series.set(key, series)
    }
    return series
  }

  all(): Iterable<Series> {
    return this.#series.values()
  }
}
