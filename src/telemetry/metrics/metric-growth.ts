import { CATALOGUE, type HistogramName, type MetricName } from './catalogue.ts'
import type { MetricMemory } from './metric-memory.ts'

const ENTRIES_PER_STEP = 500

/** Measures how much each series of a counter has grown since the last look. Keeps one number for each series. */
export class CounterGrowth {
  readonly #memory: MetricMemory
  readonly #name: MetricName
  /** Previous counts, in the order of the directory, which only ever grows. */
  #before = new Float64Array(0)

  constructor(memory: MetricMemory, name: MetricName) {
    this.#memory = memory
    this.#name = name
  }

  /** Calls `onGrowth` for each series that has grown, in slices. A new series has grown from 0. */
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

/** Doubles the room, since series come one by one. */
function enlarged(counts: Float64Array<ArrayBuffer>, length: number): Float64Array<ArrayBuffer> {
  const larger = new Float64Array(length * 2)
  larger.set(counts)
  return larger
}

/** Observations of all threads in a histogram without labels since the last look. */
export class HistogramGrowth {
  readonly #memory: MetricMemory
  readonly #name: HistogramName
  readonly #bounds: readonly number[]
  readonly #before: Float64Array
  /** Growth by bucket; the last one is for values above all bounds. */
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

  /** Number of observations between the last two looks. */
  get count(): number {
    return this.#grown.reduce((sum, count) => sum + count, 0)
  }

  /** Estimates a quantile as Prometheus does, assuming that values are evenly spread in their bucket. Null if nothing was observed. */
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

const MINUTE_MS = 60_000

/** The counts at one moment, by metric, in the order of the directory, which only ever grows. */
interface Snapshot {
  readonly atMs: number
  readonly counts: ReadonlyMap<string, Float64Array>
}

/** How much counters grew in the last minute or another span. It only reads the shared memory, so counting costs nothing more. */
export class RecentCounts {
  readonly #memory: MetricMemory
  readonly #names: readonly MetricName[]
  readonly #spanMs: number
  /** Snapshots, oldest first. One that is older than the span is kept. */
  readonly #snapshots: Snapshot[] = []

  /** `spanMs` is how far back counts are compared, at least: the comparison is with the last snapshot before that. */
  constructor(memory: MetricMemory, names: readonly MetricName[], spanMs = MINUTE_MS) {
    this.#memory = memory
    this.#names = names
    this.#spanMs = spanMs
  }

  /** Takes a snapshot of the current counts, in slices. */
  *noteSteps(nowMs: number): Generator<void> {
    yield* this.#memory.readSteps()
    const counts = new Map<string, Float64Array>()
    for (const name of this.#names) {
      const entries = this.#memory.entriesOf(name)
      const values = new Float64Array(entries.length)
      for (let i = 0; i < values.length; i++) {
        values[i] = this.#memory.sum(entries[i]!.cell)
        if (i % ENTRIES_PER_STEP === ENTRIES_PER_STEP - 1) yield
      }
      counts.set(name, values)
    }
    this.#snapshots.push({ atMs: nowMs, counts })
    while (this.#snapshots.length > 1 && this.#snapshots[1]!.atMs <= nowMs - this.#spanMs) this.#snapshots.shift()
  }

  /** Returns how much each series of a metric has counted lately, by its position in the directory. If no snapshot is old enough, since the start. */
  since(name: MetricName, nowMs: number): (index: number) => number {
    const entries = this.#memory.entriesOf(name)
    const start = this.#snapshots.findLast(({ atMs }) => atMs <= nowMs - this.#spanMs)?.counts.get(name)
    return (index) => this.#memory.sum(entries[index]!.cell) - (start?.[index] ?? 0)
  }
}
