/** Bound on the intervals that are kept. */
const MAX_INTERVALS = 720

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
/** Each length is a multiple of the one before; beyond the last, lengths are doubled. */
const LENGTHS = [1000, 5000, 15_000, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY]

/** Counts over time for a chart whose span is known only at the end: when there are too many intervals, they are made longer. */
export class TimeSeries {
  intervalMs = LENGTHS[0]!
  #firstIndex = 0
  #length = 0
  readonly #series: readonly Float64Array[]

  constructor(seriesCount: number) {
    this.#series = Array.from({ length: seriesCount }, () => new Float64Array(MAX_INTERVALS))
  }

  /** Times must not decrease. */
  add(series: number, timeMs: number): void {
    this.#series[series]![this.#indexOf(timeMs)]!++
  }

  /** Start of the first interval, in Unix time. */
  get startMs(): number {
    return this.#firstIndex * this.intervalMs
  }

  countsOf(series: number): readonly number[] {
    return [...this.#series[series]!.subarray(0, this.#length)]
  }

  #indexOf(timeMs: number): number {
    if (this.#length === 0) this.#firstIndex = Math.floor(timeMs / this.intervalMs)
    let index = Math.floor(timeMs / this.intervalMs) - this.#firstIndex
    while (index >= MAX_INTERVALS) {
      this.#lengthen()
      index = Math.floor(timeMs / this.intervalMs) - this.#firstIndex
    }
    if (index >= this.#length) this.#length = index + 1
    return index
  }

  /** Intervals stay aligned, so that hours and days begin with a new one. */
  #lengthen(): void {
    const longerMs = LENGTHS.find((ms) => ms > this.intervalMs) ?? 2 * this.intervalMs
    const factor = longerMs / this.intervalMs
    const oldFirst = this.#firstIndex
    this.intervalMs = longerMs
    this.#firstIndex = Math.floor(oldFirst / factor)
    const indexOf = (oldIndex: number): number => Math.floor((oldFirst + oldIndex) / factor) - this.#firstIndex
    for (const counts of this.#series) {
      const old = counts.slice(0, this.#length)
      counts.fill(0)
      for (const [index, count] of old.entries()) counts[indexOf(index)]! += count
    }
    this.#length = indexOf(this.#length - 1) + 1
  }
}
