import { acquire, ownerOf, release } from '../../memory/shared-lock.ts'

/**
 * Counters of all threads: cells in one SharedArrayBuffer, with a lane for each thread, so that no two threads write the same cell. A scrape
 * sums the lanes. A shared directory says which cell counts what. It only ever grows and outlives the threads that wrote it, so a count never
 * goes down.
 *
 *     lock, entries, cells in use | directory | lane 0 | lane 1 | …
 *     entry: length, first cell, JSON of the metric's name and its label values
 */
export class MetricMemory {
  /** This thread's cells. */
  readonly own: Float64Array
  readonly #lane: number
  readonly #laneCount: number
  readonly #words: Int32Array
  readonly #bytes: Buffer
  readonly #cells: Float64Array
  readonly #cellByKey = new Map<string, number>()
  readonly #entriesByName = new Map<string, MetricEntry[]>()
  #seenEntries = 0
  #seenBytes = 0

  constructor(buffer: SharedArrayBuffer, lane: number) {
    this.#lane = lane
    this.#laneCount = (buffer.byteLength - LANES_AT) / LANE_BYTES
    this.#words = new Int32Array(buffer, 0, DIRECTORY_AT / 4)
    this.#bytes = Buffer.from(buffer, DIRECTORY_AT, DIRECTORY_BYTES)
    this.#cells = new Float64Array(buffer, LANES_AT)
    this.own = new Float64Array(buffer, LANES_AT + lane * LANE_BYTES, LANE_CELLS)
  }

  /**
   * Returns the first of `size` cells for these label values, which is the same for every thread. If there is no room left, it is the cell that
   * counts everything without a cell of its own.
   */
  cellOf(name: string, values: readonly string[], size = 1): number {
    const key = JSON.stringify([name, ...values])
    return this.#cellByKey.get(key) ?? this.#register(key, size)
  }

  /** Returns all series that any thread counts under this name. */
  entriesOf(name: string): readonly MetricEntry[] {
    this.#readDirectory()
    return this.#entriesByName.get(name) ?? []
  }

  /** Reads what other threads have registered since, in slices: after a change of bundles these can be tens of thousands of entries. */
  *readSteps(): Generator<void> {
    while (this.#readDirectory(ENTRIES_PER_STEP)) yield
  }

  sum(cell: number): number {
    let sum = 0
    for (let lane = 0; lane < this.#laneCount; lane++) sum += this.#cells[lane * LANE_CELLS + cell]!
    return sum
  }

  /** Returns what one thread has counted in a cell. */
  ofLane(lane: number, cell: number): number {
    return this.#cells[lane * LANE_CELLS + cell]!
  }

  /** Frees a dead thread's lock and clears its gauges. Its counts stay. */
  forgetWorker(lane: number, gauges: readonly string[]): void {
    if (ownerOf(this.#words, LOCK) === lane + 1) release(this.#words, LOCK)
    for (const name of gauges) for (const { cell } of this.entriesOf(name)) this.#cells[lane * LANE_CELLS + cell] = 0
  }

  #register(key: string, size: number): number {
    const text = Buffer.from(key)
    const words = this.#words
    acquire(words, LOCK, this.#lane + 1)
    const hasNewEntries = words[ENTRIES] !== this.#seenEntries
    const at = this.#seenBytes
    const cell = words[CELLS_USED]! + FIRST_CELL
    const fits = cell + size <= LANE_CELLS && at + ENTRY_HEAD + text.length <= DIRECTORY_BYTES
    if (!hasNewEntries && fits) {
      this.#bytes.writeUInt32LE(text.length, at)
      this.#bytes.writeUInt32LE(cell, at + 4)
      this.#bytes.set(text, at + ENTRY_HEAD)
      words[CELLS_USED]! += size
      // This comes last, so that an entry counts only when it is complete, even if its writer dies.
      words[ENTRIES]! += 1
    }
    release(words, LOCK)
    if (!hasNewEntries && !fits) return OVERFLOW_CELL
    this.#readDirectory()
    // Another thread may have registered it. If not, we try again.
    return this.#cellByKey.get(key) ?? this.#register(key, size)
  }

  /** Returns whether there is more to read. */
  #readDirectory(max = Number.POSITIVE_INFINITY): boolean {
    const all = Atomics.load(this.#words, ENTRIES)
    const count = Math.min(all, this.#seenEntries + max)
    for (; this.#seenEntries < count; this.#seenEntries++) {
      const at = this.#seenBytes
      const end = at + ENTRY_HEAD + this.#bytes.readUInt32LE(at)
      const cell = this.#bytes.readUInt32LE(at + 4)
      const key = this.#bytes.toString('utf8', at + ENTRY_HEAD, end)
      const [name, ...values] = JSON.parse(key) as [string, ...string[]]
      this.#cellByKey.set(key, cell)
      const entries = this.#entriesByName.get(name)
      if (entries === undefined) this.#entriesByName.set(name, [{ values, cell }])
      else entries.push({ values, cell })
      this.#seenBytes = end
    }
    return count < all
  }
}

export interface MetricEntry {
  readonly values: readonly string[]
  readonly cell: number
}

/** Memory pages that are never touched cost nothing, so there is room for more policies than a bundle can have. */
export function newMetricBuffer(lanes: number): SharedArrayBuffer {
  return new SharedArrayBuffer(LANES_AT + lanes * LANE_BYTES)
}

/** Cell for counts that found no room. */
export const OVERFLOW_CELL = 0

const LOCK = 0
const ENTRIES = 1
const CELLS_USED = 2
const FIRST_CELL = 1
const ENTRY_HEAD = 8
const ENTRIES_PER_STEP = 100

const LANE_CELLS = 128 * 1024
const LANE_BYTES = LANE_CELLS * 8
const DIRECTORY_AT = 16
const DIRECTORY_BYTES = 16 * 1024 * 1024 - DIRECTORY_AT
const LANES_AT = DIRECTORY_AT + DIRECTORY_BYTES
