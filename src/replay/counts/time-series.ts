/** Intervals that are kept. */
const MAX_INTERVALS = 512
const SMALLEST_MS = 1000

/** Counts over time for a chart, of a span that is known only at its end: when there are too many intervals, each becomes twice as long. */
export class TimeSeries {
  intervalMs = SMALLEST_MS
  #firstIndex = 0
  #length = 0
  readonly #series: readonly Float64Array[]

  constructor(seriesCount: number) {
    this.#series = Array.from({ length: seriesCount }, () => new Float64Array(MAX_INTERVALS))
  }

  /** Times never go back. */
  add(series: number, timeMs: number): void {
    this.#series[series]![this.#placeOf(timeMs)]!++
  }

  /** When the first interval begins, in Unix time. */
  get startMs(): number {
    return this.#firstIndex * this.intervalMs
  }

  countsOf(series: number): readonly number[] {
    return [...this.#series[series]!.subarray(0, this.#length)]
  }

  #placeOf(timeMs: number): number {
    if (this.#length === 0) this.#firstIndex = Math.floor(timeMs / this.intervalMs)
    let place = Math.floor(timeMs / this.intervalMs) - this.#firstIndex
    while (place >= MAX_INTERVALS) {
      this.#double()
      place = Math.floor(timeMs / this.intervalMs) - this.#firstIndex
    }
    if (place >= this.#length) this.#length = place + 1
    return place
  }

  /** Intervals stay aligned, so that hours and days begin with one. */
  #double(): void {
    const oldFirst = this.#firstIndex
    this.intervalMs *= 2
    this.#firstIndex = Math.floor(oldFirst / 2)
    for (const counts of this.#series) {
      const old = counts.slice(0, this.#length)
      counts.fill(0)
      for (const [place, count] of old.entries()) counts[Math.floor((oldFirst + place) / 2) - this.#firstIndex]! += count
    }
    this.#length = Math.floor((oldFirst + this.#length - 1) / 2) - this.#firstIndex + 1
  }
}
