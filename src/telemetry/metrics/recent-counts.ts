import type { MetricName } from './catalogue.ts'
import type { MetricMemory } from './metric-memory.ts'

const MINUTE_MS = 60_000
const ENTRIES_PER_STEP = 500

/** The counts of one moment, by metric, in the order of the directory, which only ever grows. */
interface Snapshot {
  readonly atMs: number
  readonly counts: ReadonlyMap<string, Float64Array>
}

/** By how much counters grew in the last minute or another span, or since the start. Costs those who count nothing: it reads what all threads share. */
export class RecentCounts {
  readonly #memory: MetricMemory
  readonly #names: readonly MetricName[]
  readonly #spanMs: number
  /** The oldest first. One that is older than the span is kept. */
  readonly #snapshots: Snapshot[] = []

  /** `spanMs`: how far back counts are compared; as much further as the last note before that is. */
  constructor(memory: MetricMemory, names: readonly MetricName[], spanMs = MINUTE_MS) {
    this.#memory = memory
    this.#names = names
    this.#spanMs = spanMs
  }

  /** Notes the counts of now, a part at a time. */
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

  /** What each series of a metric has counted lately, by its place in the directory. */
  since(name: MetricName, nowMs: number): (place: number) => number {
    const entries = this.#memory.entriesOf(name)
    const start = this.#snapshots.findLast(({ atMs }) => atMs <= nowMs - this.#spanMs)?.counts.get(name)
    return (place) => this.#memory.sum(entries[place]!.cell) - (start?.[place] ?? 0)
  }
}
