import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { setImmediate, setTimeout } from 'node:timers/promises'
import type { Clock } from '../../clock.ts'
import { replaceFile } from '../../replace-file.ts'
import type { SharedTable } from '../shared-table.ts'
import { copyLive, RecordBatch } from '../table-records.ts'
import { StateFault } from './state-fault.ts'
import { COUNT_BYTES, encodeHeader, encodeRecords, HEADER_BYTES, RECORD_BYTES } from './state-format.ts'

export interface Saved {
  readonly counters: number
  readonly bytes: number
}

/** The longest that a save keeps its thread to itself. */
const SLICE_MS = 2
/** Sets between two looks at the time. */
const SETS_PER_LOOK = 32
const CHUNK_BYTES = 256 * 1024
const FULL_SET_BYTES = new RecordBatch().lows.length * RECORD_BYTES
/** Longer than any decision holds a lock, and than it takes to free those of a dead thread. */
const LOCK_PATIENCE_MS = 5_000

/** The file that a table's counters are saved to, at the path behind all links. Its lock is the caller's business. */
export class StateFile {
  readonly path: string
  readonly #table: SharedTable
  readonly #hashKey: readonly [number, number]
  readonly #clock: Clock
  /** Ends when the last save that was begun does, well or not. */
  #running: Promise<unknown> = Promise.resolve()
  #waiting: Promise<Saved> | undefined

  constructor(path: string, table: SharedTable, hashKey: readonly [number, number], clock: Clock) {
    this.path = path
    this.#table = table
    this.#hashKey = hashKey
    this.#clock = clock
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
    const out = new HashingWriter(handle)
    const nowMs = this.#clock.nowMs()
    const wallMs = this.#clock.wallMs()
    const header = { hashKey: this.#hashKey, wallMs, nowMs }
    encodeHeader(out.view, header)
    out.used = HEADER_BYTES
    const batch = new RecordBatch()
    let counters = 0
    let sliceEndMs = performance.now() + SLICE_MS
    for (let set = 0; set < this.#table.setCount; set++) {
      if (!copyLive(this.#table, set, nowMs, wallMs, batch)) await this.#copyWhenFree(set, nowMs, wallMs, batch)
      out.used = encodeRecords(out.view, out.used, batch, header)
      counters += batch.length
      const isFull = out.used + FULL_SET_BYTES > CHUNK_BYTES
      if (isFull) await out.flush()
      else if (set % SETS_PER_LOOK !== 0 || performance.now() < sliceEndMs) continue
      else await setImmediate()
      sliceEndMs = performance.now() + SLICE_MS
    }
    return { counters, bytes: await out.end(counters) }
  }

  /** Whoever holds the lock may be dead, and then it is this thread that has to hear of it. */
  async #copyWhenFree(set: number, nowMs: number, wallMs: number, batch: RecordBatch): Promise<void> {
    const endMs = performance.now() + LOCK_PATIENCE_MS
    do {
      if (performance.now() > endMs) throw new Error(`a part of the table has been locked for ${LOCK_PATIENCE_MS} ms`)
      await setTimeout(1)
    } while (!copyLive(this.#table, set, nowMs, wallMs, batch))
  }
}

/** A chunk at a time, and a checksum of all of them at the end. */
class HashingWriter {
  readonly #handle: FileHandle
  readonly #hash = createHash('sha256')
  readonly #chunk = Buffer.alloc(CHUNK_BYTES)
  readonly view = new DataView(this.#chunk.buffer, this.#chunk.byteOffset, CHUNK_BYTES)
  /** How much of the chunk is filled. */
  used = 0
  #bytes = 0

  constructor(handle: FileHandle) {
    this.#handle = handle
  }

  async flush(): Promise<void> {
    const bytes = this.#chunk.subarray(0, this.used)
    this.#hash.update(bytes)
    await this.#handle.writeFile(bytes)
    this.#bytes += this.used
    this.used = 0
  }

  /** Answers how many bytes there are in all. */
  async end(counters: number): Promise<number> {
    this.view.setFloat64(this.used, counters, true)
    this.used += COUNT_BYTES
    await this.flush()
    const digest = this.#hash.digest()
    await this.#handle.writeFile(digest)
    return this.#bytes + digest.length
  }
}
