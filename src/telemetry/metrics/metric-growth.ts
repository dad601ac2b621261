import { CATALOGUE, type HistogramName, type MetricName } from './catalogue.ts'
import type { MetricMemory } from './metric-memory.ts'

const ENTRIES_PER_STEP = 500

/**
 * Measures how much each series of a counter has grown since the last look, and adds that up over longer spans, each of which ends when it is taken.
 * Keeps one number for each series, and one more for each span.
 */
export class CounterGrowth {
  readonly #memory: MetricMemory
  readonly #name: MetricName
  /** Previous counts, in the order of the directory, which only ever grows. */
  #before = new Float64Array(0)
  /** The growth since each span was last taken, in the same order. */
  readonly #sums: Float64Array<ArrayBuffer>[]

  constructor(memory: MetricMemory, name: MetricName, spans = 0) {
    this.#memory = memory
    this.#name = name
    this.#sums = Array.from({ length: spans }, () => new Float64Array(0))
  }

  /** Calls `onGrowth` for each series that has grown, in slices. A new series has grown from 0. */
  *steps(onGrowth: OnGrowth): Generator<void> {
    const entries = this.#memory.entriesOf(this.#name)
    const { length } = entries
    if (this.#before.length < length) this.#enlarge(length)
    for (let i = 0; i < length; i++) {
      const { values, cell } = entries[i]!
      const count = this.#memory.sum(cell)
      const by = count - this.#before[i]!
      if (by > 0) {
        this.#before[i] = count
        for (const sums of this.#sums) sums[i]! += by
        onGrowth(values, by)
      }
      if (i % ENTRIES_PER_STEP === ENTRIES_PER_STEP - 1) yield
    }
  }

  /** Calls `onGrowth` for each series that has grown since this span was last taken, as far as the last look saw it, in slices. */
  *takeSteps(span: number, onGrowth: OnGrowth): Generator<void> {
    const entries = this.#memory.entriesOf(this.#name)
    const sums = this.#sums[span]!
    for (let i = 0; i < sums.length; i++) {
      const by = sums[i]!
      sums[i] = 0
      if (by > 0) onGrowth(entries[i]!.values, by)
      if (i % ENTRIES_PER_STEP === ENTRIES_PER_STEP - 1) yield
    }
  }

  #enlarge(length: number): void {
    this.#before = enlarged(this.#before, length)
    for (const [span, sums] of this.#sums.entries()) this.#sums[span] = enlarged(sums, length)
  }
}

type OnGrowth = (values: readonly string[], by: number) => void

/** Doubles the room, since series come one by one. */
function enlarged(counts: Float64Array<ArrayBuffer>, length: number): Float64Array<ArrayBuffer> {
  const larger = new Float64Array(length * 2)
  larger.set(counts)
  return larger
}

/** Observations of all threads in a histogram without labels since the last look, and since each of some longer spans was taken. */
export class HistogramGrowth {
  readonly #memory: MetricMemory
  readonly #name: HistogramName
  readonly #before: Float64Array
  readonly #grown: Observations
  readonly #sums: readonly Observations[]

  constructor(memory: MetricMemory, name: HistogramName, spans = 0) {
    const { bounds } = CATALOGUE[name]
    this.#memory = memory
    this.#name = name
    this.#before = new Float64Array(bounds.length + 1)
    this.#grown = new Observations(bounds)
    this.#sums = Array.from({ length: spans }, () => new Observations(bounds))
  }

  /** Returns what was observed since the last look. It is valid until the next one. */
  look(): Observations {
    const cell = this.#memory.entriesOf(this.#name)[0]?.cell
    const grown = this.#grown.buckets
    for (let bucket = 0; bucket < grown.length; bucket++) {
      const count = cell === undefined ? 0 : this.#memory.sum(cell + bucket)
      grown[bucket] = count - this.#before[bucket]!
      this.#before[bucket] = count
    }
    for (const sum of this.#sums) sum.add(this.#grown)
    return this.#grown
  }

  /** Returns what was observed since this span was last taken, as far as the last look saw it. */
  take(span: number): Observations {
    const sum = this.#sums[span]!
    const taken = new Observations(sum.bounds)
    taken.add(sum)
    sum.buckets.fill(0)
    return taken
  }
}

/** Numbers of observations by the bucket of a histogram. */
export class Observations {
  readonly bounds: readonly number[]
  /** The last bucket is for values above all bounds. */
  readonly buckets: Float64Array

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.buckets = new Float64Array(bounds.length + 1)
  }

  add({ buckets }: Observations): void {
    for (let bucket = 0; bucket < buckets.length; bucket++) this.buckets[bucket]! += buckets[bucket]!
  }

  get count(): number {
    return this.buckets.reduce((sum, count) => sum + count, 0)
  }

  /** Estimates a quantile as Prometheus does, assuming that values are evenly spread in their bucket. Null if nothing was observed. */
  quantile(share: number): number | null {
    const { bounds, buckets, count } = this
    if (count === 0) return null
    let rest = share * count
    for (let bucket = 0; bucket < bounds.length; bucket++) {
      const inBucket = buckets[bucket]!
      const below = bucket === 0 ? 0 : bounds[bucket - 1]!
      if (rest <= inBucket && inBucket > 0) return below + (bounds[bucket]! - below) * (rest / inBucket)
      rest -= inBucket
    }
    return bounds.at(-1)!
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
