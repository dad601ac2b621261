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
  /** With all links resolved. */
  readonly path: string
  readonly table: SharedTable
  readonly hashKey: readonly [number, number]
  readonly clock: Clock
  /** Sections of the file that this program cannot read, to be saved with the rest. */
  readonly unknownSections?: Buffer | undefined
}

/** What is saved beside the counters: type and payload of each section. Asked for after the counters were copied at that moment. */
export type MoreSections = (saved: Moment) => Iterable<readonly [type: number, payload: Buffer]>

export interface Saved {
  /** Counters, and resets of counters. */
  readonly counters: number
  readonly bytes: number
}

/** The longest that a save blocks its thread. */
const SLICE_MS = 2
/** Sets between two readings of the clock. */
const SETS_PER_CLOCK_READ = 32
/** Longer than any decision holds a lock, and than it takes to free the locks of a dead thread. */
const LOCK_TIMEOUT_MS = 5_000

/** The file that a table's counters are saved to. The caller holds its lock. */
export class StateFile {
  readonly #parts: StateFileParts
  /** Resolves when the last save that was started has ended, successful or not. */
  #running: Promise<unknown> = Promise.resolve()
  #waiting: Promise<Saved> | undefined
  readonly #more: MoreSections[] = []

  constructor(parts: StateFileParts) {
    this.#parts = parts
  }

  get path(): string {
    return this.#parts.path
  }

  /** These are saved too, from now on. */
  saveWith(more: MoreSections): void {
    this.#more.push(more)
  }

  /**
   * Saves all that was taken before the call. One save at a time: calls during a save share the next one. Throws a StateFault, and then the
   * file is unchanged.
   */
  save(): Promise<Saved> {
    this.#waiting ??= this.#saveAfter(this.#running)
    return this.#waiting
  }

  async #saveAfter(running: Promise<unknown>): Promise<Saved> {
    await running
    this.#waiting = undefined
    const saving = this.#replace()
    this.#running = saving.catch(() => {}) // the caller of save() gets the error
    return saving
  }

  async #replace(): Promise<Saved> {
    try {
      // Readable by the owner alone: with the hash key, a caller could collide with others' counters on purpose.
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
      else if (set % SETS_PER_CLOCK_READ !== 0 || performance.now() < sliceEndMs) continue
      else await setImmediate()
      sliceEndMs = performance.now() + SLICE_MS
    }
    for (const more of this.#more) for (const [type, payload] of more(moment)) await out.addSection(type, payload)
    const bytes = await out.end()
    return { counters: out.counters, bytes }
  }

  /** The thread that holds the lock may be dead, and this thread frees its locks: so wait without blocking. */
  async #copyWhenFree(set: number, { nowMs, wallMs }: Moment, batch: RecordBatch): Promise<void> {
    const endMs = performance.now() + LOCK_TIMEOUT_MS
    do {
      if (performance.now() > endMs) throw new Error(`a part of the table has been locked for ${LOCK_TIMEOUT_MS} ms`)
      await setTimeout(1)
    } while (!copyLive(this.#parts.table, set, nowMs, wallMs, batch))
  }
}
