import type { FileHandle } from 'node:fs/promises'
import { setImmediate, setTimeout } from 'node:timers/promises'
import type { Clock } from '../../clock.ts'
import { replaceFile } from '../../files/replace-file.ts'
import type { SharedTable } from '../shared-table.ts'
import { copyLive, RecordBatch } from '../table-records.ts'
import { StateFault } from './state-fault.ts'
import type { Moment } from './state-format.ts'
import { StateWriter } from './state-writer.ts'

export interface StateFileParts {
  /** Behind all links. */
  readonly path: string
  readonly table: SharedTable
  readonly hashKey: readonly [number, number]
  readonly clock: Clock
  /** What the file had that this program does not know, to be saved along with the rest. */
  readonly unknownSections?: Buffer | undefined
}

export interface Saved {
  /** Counters, and resets of counters. */
  readonly counters: number
  readonly bytes: number
}

/** The longest that a save keeps its thread to itself. */
const SLICE_MS = 2
/** Sets between two looks at the time. */
const SETS_PER_LOOK = 32
/** Longer than any decision holds a lock, and than it takes to free those of a dead thread. */
const LOCK_PATIENCE_MS = 5_000

/** The file that a table's counters are saved to. Its lock is the caller's business. */
export class StateFile {
  readonly #parts: StateFileParts
  /** Ends when the last save that was begun does, well or not. */
  #running: Promise<unknown> = Promise.resolve()
  #waiting: Promise<Saved> | undefined

  constructor(parts: StateFileParts) {
    this.#parts = parts
  }

  get path(): string {
    return this.#parts.path
  }

  /**
   * Saves all that has been taken before the call. One save at a time: whoever comes while one runs gets the next,
   * together with all others who wait. Throws a StateFault, and then the file is the one from before.
   */
  save(): Promise<Saved> {
    this.#waiting ??= this.#saveAfter(this.#running)
    return this.#waiting
  }

  async #saveAfter(running: Promise<unknown>): Promise<Saved> {
    await running
    this.#waiting = undefined
    const saving = this.#replace()
    this.#running = saving.catch(() => {}) // whoever asked for it hears of it
    return saving
  }

  async #replace(): Promise<Saved> {
    try {
      // For nobody else: whoever knows the hash key can aim at other callers' counters.
      return await replaceFile(this.path, (handle) => this.#write(handle), { besidePath: `${this.path}.new`, mode: 0o600 })
    } catch (error) {
      throw new StateFault(`cannot write ${this.path}`, error)
    }
  }

  async #write(handle: FileHandle): Promise<Saved> {
    const { table, hashKey, clock, unknownSections = Buffer.alloc(0) } = this.#parts
    const moment = { nowMs: clock.nowMs(), wallMs: clock.wallMs() }
    const out = await StateWriter.begin(handle, { hashKey, ...moment }, unknownSections)
    const batch = new RecordBatch()
    let sliceEndMs = performance.now() + SLICE_MS
    for (let set = 0; set < table.setCount; set++) {
      if (!copyLive(table, set, moment.nowMs, moment.wallMs, batch)) await this.#copyWhenFree(set, moment, batch)
      if (!out.add(batch)) await out.flush()
      else if (set % SETS_PER_LOOK !== 0 || performance.now() < sliceEndMs) continue
      else await setImmediate()
      sliceEndMs = performance.now() + SLICE_MS
    }
    const bytes = await out.end()
    return { counters: out.counters, bytes }
  }

  /** Whoever holds the lock may be dead, and then it is this thread that has to hear of it. */
  async #copyWhenFree(set: number, { nowMs, wallMs }: Moment, batch: RecordBatch): Promise<void> {
    const endMs = performance.now() + LOCK_PATIENCE_MS
    do {
      if (performance.now() > endMs) throw new Error(`a part of the table has been locked for ${LOCK_PATIENCE_MS} ms`)
      await setTimeout(1)
    } while (!copyLive(this.#parts.table, set, nowMs, wallMs, batch))
  }
}
