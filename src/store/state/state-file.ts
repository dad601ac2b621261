import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { replaceFile } from '../../files/whole-file.ts'
import type { Clock } from '../../time/clock.ts'
import type { SharedTable } from '../table/shared-table.ts'
import { copyLive, RecordBatch } from '../table/table-records.ts'
import {
  END,
  encodeHeader,
  encodeRecord,
  encodeSectionHeader,
  HEADER_BYTES,
  isKeptFrom,
  type Moment,
  OPEN_AMOUNTS,
  RECORD_BYTES,
  SECTION_HEADER_BYTES,
  StateFault,
  type StateHeader,
} from './state-format.ts'
import { CHUNK_BYTES } from './state-scan.ts'

export interface StateFileParts {
  /** Path of the state file, with all links resolved. */
  readonly path: string
  readonly table: SharedTable
  readonly hashKey: readonly [number, number]
  readonly clock: Clock
  /** Sections of the file that this program cannot read, to be saved with the rest. */
  readonly unknownSections?: Buffer | undefined
}

/**
 * Returns the type and payload of each section that is saved beside the counters. It is called after the counters were copied, as of
 * `saved`.
 */
export type MoreSections = (saved: Moment) => Iterable<readonly [type: number, payload: Buffer]>

/**
 * Returns what requests in flight would give back, as `open-amounts.ts` encodes it. Only those that had taken all of it by `beforeMs`, on the monotonic clock,
 * may be among them. It is called after the counters were copied.
 */
export type AskOpenAmounts = (beforeMs: number) => Promise<readonly Uint8Array[]>

export interface Saved {
  /** Number of counters and of resets of counters. */
  readonly counters: number
  readonly bytes: number
}

/** What a file has in it, as `#contentAt` describes it, and when it was written. */
interface Written {
  readonly content: string
  readonly moment: Moment
}

/** The wall clock may drift. If it was set, or the machine has slept, what a file says of time is wrong by more than this. */
const CLOCK_TOLERANCE_MS = 1000
/** The longest that a save blocks its thread. */
const SLICE_MS = 2
/** Sets copied between two readings of the clock. */
const SETS_PER_CLOCK_READ = 32
/** Longer than any decision holds a lock, and longer than it takes to free the locks of a dead thread. */
const LOCK_TIMEOUT_MS = 5_000

/** The file that a table's counters are saved to. The caller holds its lock. */
export class StateFile {
  readonly #parts: StateFileParts
  /** Resolves when the last save that was started has ended, successful or not. */
  #running: Promise<unknown> = Promise.resolve()
  #waiting: Promise<Saved> | undefined
  readonly #more: MoreSections[] = []
  #askOpen: AskOpenAmounts = async () => []
  /** Undefined before the first save, and after one that failed. */
  #written: Written | undefined

  constructor(parts: StateFileParts) {
    this.#parts = parts
  }

  get path(): string {
    return this.#parts.path
  }

  /** Adds sections that each save from now on includes. */
  saveWith(more: MoreSections): void {
    this.#more.push(more)
  }

  /** Each save from now on asks for what requests in flight would give back. */
  saveOpenAmounts(ask: AskOpenAmounts): void {
    this.#askOpen = ask
  }

  /**
   * Saves all that was taken before the call. Only one save runs at a time: calls during a save share the next one. Throws a StateFault,
   * and then the file is unchanged.
   */
  save(): Promise<Saved> {
    this.#waiting ??= this.#saveAfter(this.#running)
    return this.#waiting
  }

  /** Whether another save would change nothing but the moments in the file, and those still say how much time has passed since. */
  isUpToDate(): boolean {
    const written = this.#written
    if (written === undefined) return false
    const moment = this.#moment()
    return Math.abs(aheadMs(moment) - aheadMs(written.moment)) <= CLOCK_TOLERANCE_MS && written.content === this.#contentAt(moment)
  }

  #moment(): Moment {
    const { clock } = this.#parts
    return { nowMs: clock.nowMs(), wallMs: clock.wallMs() }
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
      // The file is readable by its owner alone: with the hash key, a caller could make its counters collide with those of others.
      const place = { besidePath: `${this.path}.new`, mode: 0o600 }
      const { written, ...saved } = await replaceFile(this.path, (handle) => this.#write(handle), place)
      this.#written = written
      return saved
    } catch (error) {
      this.#written = undefined
      throw new StateFault(`cannot write ${this.path}`, error)
    }
  }

  async #write(handle: FileHandle): Promise<Saved & { readonly written: Written }> {
    const { table, hashKey, unknownSections = Buffer.alloc(0) } = this.#parts
    const moment = this.#moment()
    // Whatever changes from here on may or may not be in the file.
    const content = this.#contentAt(moment)
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
    // Asked now, a request that was settled before its counter was copied is not among them, and one that was settled since stays spent in the file.
    for (const payload of await this.#askOpen(moment.nowMs)) if (payload.length > 0) await out.addSection(OPEN_AMOUNTS, payload)
    for (const more of this.#more) for (const [type, payload] of more(moment)) await out.addSection(type, payload)
    const bytes = await out.end()
    return { counters: out.counters, bytes, written: { content, moment } }
  }

  /** Names what a save at this moment would write, without reading the table. */
  #contentAt(moment: Moment): string {
    const hash = createHash('sha256')
    for (const more of this.#more) for (const [type, payload] of more(moment)) hash.update(`${type} ${payload.length} `).update(payload)
    return `${this.#parts.table.changes} ${hash.digest('base64')}`
  }

  /** Waits without blocking, because the thread that holds the lock may be dead, and it is this thread that frees its locks. */
  async #copyWhenFree(set: number, { nowMs, wallMs }: Moment, batch: RecordBatch): Promise<void> {
    const endMs = performance.now() + LOCK_TIMEOUT_MS
    do {
      if (performance.now() > endMs) throw new Error(`a part of the table has been locked for ${LOCK_TIMEOUT_MS} ms`)
      await setTimeout(1)
    } while (!copyLive(this.#parts.table, set, nowMs, wallMs, batch))
  }
}

/**
 * Writes a state file from start to end. Records are gathered by kind; all sections are written as soon as one kind has filled a chunk, so
 * that memory is bounded by the number of kinds.
 */
class StateWriter {
  /** Records that were gathered so far. */
  counters = 0
  readonly #handle: FileHandle
  readonly #moment: Moment
  readonly #hash = createHash('sha256')
  readonly #gathered = new Map<number, GatheredSection>()
  #bytes = 0

  private constructor(handle: FileHandle, moment: Moment) {
    this.#handle = handle
    this.#moment = moment
  }

  /** Writes the header, and `unknownSections` from the previous file. */
  static async begin(handle: FileHandle, header: Omit<StateHeader, 'version'>, unknownSections: Buffer): Promise<StateWriter> {
    const writer = new StateWriter(handle, header)
    const bytes = Buffer.alloc(HEADER_BYTES)
    encodeHeader(viewOf(bytes), header)
    await writer.#write(bytes)
    for (let at = 0; at < unknownSections.length; at += CHUNK_BYTES) await writer.#write(unknownSections.subarray(at, at + CHUNK_BYTES))
    return writer
  }

  /** Gathers those of a set's records that are saved. Returns false if `flush` must be called before the next set. */
  add(batch: RecordBatch): boolean {
    let hasRoom = true
    for (let row = 0; row < batch.length; row++) {
      const kind = batch.kinds[row]!
      if (!isKeptFrom(this.#moment, kind, batch.ats[row]!)) continue
      const section = this.#gathered.get(kind) ?? this.#newSection(kind)
      section.add(batch, row)
      hasRoom = section.hasRoomFor(batch.lows.length) && hasRoom
      this.counters++
    }
    return hasRoom
  }

  async flush(): Promise<void> {
    for (const section of this.#gathered.values()) {
      if (!section.isEmpty) await this.#write(section.finish(this.#moment))
    }
  }

  /** Writes a section that is not made of records. */
  async addSection(type: number, payload: Uint8Array): Promise<void> {
    const header = Buffer.alloc(SECTION_HEADER_BYTES)
    encodeSectionHeader(viewOf(header), { ...this.#moment, type, bytes: payload.length })
    await this.#write(header)
    for (let at = 0; at < payload.length; at += CHUNK_BYTES) await this.#write(payload.subarray(at, at + CHUNK_BYTES))
  }

  /** Writes what is left, the end and the checksum. Returns the size of the file. */
  async end(): Promise<number> {
    await this.flush()
    const end = Buffer.alloc(SECTION_HEADER_BYTES)
    encodeSectionHeader(viewOf(end), { ...this.#moment, type: END, bytes: 0 })
    await this.#write(end)
    const digest = this.#hash.digest()
    await this.#handle.writeFile(digest)
    return this.#bytes + digest.length
  }

  #newSection(kind: number): GatheredSection {
    const section = new GatheredSection(kind)
    this.#gathered.set(kind, section)
    return section
  }

  async #write(bytes: Uint8Array): Promise<void> {
    this.#hash.update(bytes)
    await this.#handle.writeFile(bytes)
    this.#bytes += bytes.length
  }
}

/** A section that is being filled. It is reused after it was written. */
class GatheredSection {
  readonly #kind: number
  readonly #bytes = Buffer.alloc(CHUNK_BYTES)
  readonly #view = viewOf(this.#bytes)
  #used = SECTION_HEADER_BYTES

  constructor(kind: number) {
    this.#kind = kind
  }

  get isEmpty(): boolean {
    return this.#used === SECTION_HEADER_BYTES
  }

  hasRoomFor(records: number): boolean {
    return this.#used + records * RECORD_BYTES <= CHUNK_BYTES
  }

  add(batch: RecordBatch, row: number): void {
    encodeRecord(this.#view, this.#used, batch, row)
    this.#used += RECORD_BYTES
  }

  /** Returns the whole section, which is valid until the next record is added. */
  finish({ wallMs, nowMs }: Moment): Buffer {
    encodeSectionHeader(this.#view, { type: this.#kind, bytes: this.#used - SECTION_HEADER_BYTES, wallMs, nowMs })
    const section = this.#bytes.subarray(0, this.#used)
    this.#used = SECTION_HEADER_BYTES
    return section
  }
}

/** By how much the wall clock is ahead of the monotonic one. */
function aheadMs({ wallMs, nowMs }: Moment): number {
  return wallMs - nowMs
}

function viewOf(bytes: Buffer): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
}
