import { BUCKET, WINDOW } from '../../limiter/limit.ts'
import { spentShare } from '../record-kinds.ts'
import type { RecordBatch, TaggedRecord } from '../table-records.ts'

/**
 * What a state file is made of, all little-endian:
 *
 *     header   magic (8) | version (u32) | 0 (u32) | hash key (2 × i32) | wall ms (f64) | monotonic ms (f64)
 *     records  tag (2 × i32) | level (f64) | at (f64) | size (f32) | rate (f32)
 *     trailer  number of records (f64) | sha256 of all before it
 *
 * `at` is on the clock of the process that saved it, which ends with it; the header has both clocks at one moment, so
 * that another process can tell when that was.
 */
export interface StateHeader {
  /** Without it the tags mean nothing. */
  readonly hashKey: readonly [number, number]
  readonly wallMs: number
  readonly nowMs: number
}

export const HEADER_BYTES = 40
export const RECORD_BYTES = 32
export const DIGEST_BYTES = 32
export const COUNT_BYTES = 8

const MAGIC = Buffer.from('EDGSTATE', 'latin1')
const VERSION = 1
const DAY_MS = 86_400_000

export function encodeHeader(view: DataView, { hashKey, wallMs, nowMs }: StateHeader): void {
  for (const [i, byte] of MAGIC.entries()) view.setUint8(i, byte)
  view.setUint32(8, VERSION, true)
  view.setUint32(12, 0, true)
  view.setInt32(16, hashKey[0], true)
  view.setInt32(20, hashKey[1], true)
  view.setFloat64(24, wallMs, true)
  view.setFloat64(32, nowMs, true)
}

/** The header, or what is wrong with it: that it is not ours can be told before anything else is read. */
export function decodeHeader(view: DataView): StateHeader | string {
  if (view.byteLength < MAGIC.length || MAGIC.some((byte, i) => view.getUint8(i) !== byte)) return 'it is not a state file'
  if (view.byteLength < HEADER_BYTES) return 'it is cut off'
  const version = view.getUint32(8, true)
  if (version !== VERSION) return `its format is version ${version}, and this program knows version ${VERSION}`
  const [wallMs, nowMs] = [view.getFloat64(24, true), view.getFloat64(32, true)]
  if (!Number.isFinite(wallMs) || !Number.isFinite(nowMs)) return 'its numbers make no sense'
  return { hashKey: [view.getInt32(16, true), view.getInt32(20, true)], wallMs, nowMs }
}

/** Writes a batch from `offset` on; answers where it ends. */
export function encodeRecords(view: DataView, offset: number, batch: RecordBatch, { wallMs, nowMs }: StateHeader): number {
  let at = offset
  for (let row = 0; row < batch.length; row++, at += RECORD_BYTES) {
    view.setInt32(at, batch.lows[row]!, true)
    view.setInt32(at + 4, batch.highs[row]!, true)
    view.setFloat64(at + 8, batch.levels[row]!, true)
    view.setFloat64(at + 16, batch.kinds[row] === WINDOW ? batch.ats[row]! - wallMs + nowMs : batch.ats[row]!, true)
    view.setFloat32(at + 24, batch.sizes[row]!, true)
    view.setFloat32(at + 28, batch.rates[row]!, true)
  }
  return at
}

/** One object serves many records. Answers whether it can be a counter. */
export function decodeRecord(view: DataView, offset: number, into: TaggedRecord): boolean {
  into.low = view.getInt32(offset, true)
  into.high = view.getInt32(offset + 4, true)
  into.level = view.getFloat64(offset + 8, true)
  into.at = view.getFloat64(offset + 16, true)
  into.size = view.getFloat32(offset + 24, true)
  into.rate = view.getFloat32(offset + 28, true)
  into.kind = into.rate === 0 ? WINDOW : BUCKET
  return Number.isFinite(into.level) && Number.isFinite(into.at) && Number.isFinite(into.rate) && into.size > 0 && into.rate >= 0
}

/** How many records a file of this size has room for, or undefined where no file of ours has that size. */
export function recordCount(fileBytes: number): number | undefined {
  const count = (fileBytes - HEADER_BYTES - COUNT_BYTES - DIGEST_BYTES) / RECORD_BYTES
  return count >= 0 && Number.isInteger(count) ? count : undefined
}

/**
 * Turns moments of the clock that a file was saved by into those of another, by way of the wall clock. That one may
 * have been set meanwhile, and may be wrong now.
 */
export class TimeShift {
  readonly #nowMs: number
  readonly #wallMs: number
  readonly #bucketShiftMs: number
  readonly #dayShiftMs: number

  constructor(header: StateHeader, wallMs: number, nowMs: number) {
    const awayMs = wallMs - header.wallMs
    this.#nowMs = nowMs
    this.#wallMs = wallMs
    this.#dayShiftMs = header.wallMs - header.nowMs
    // Time does not run backwards for a bucket: what it got back before it was saved stays, and nothing waits for a
    // clock to come round again.
    this.#bucketShiftMs = nowMs - header.nowMs - Math.max(0, awayMs)
  }

  /** Moves the record to this clock; answers whether it still means anything. */
  apply(record: TaggedRecord): boolean {
    record.at = record.kind === WINDOW ? this.#dayEnd(record.at + this.#dayShiftMs) : Math.min(record.at + this.#bucketShiftMs, this.#nowMs)
    return spentShare(record, this.#nowMs, this.#wallMs) > 0
  }

  /**
   * A day ends at a midnight: the nearest is the right one, though the clock was set by some hours since it was written
   * down. One that a wrong clock puts years ahead is kept for two days, not for years.
   */
  #dayEnd(at: number): number {
    return Math.min(Math.round(at / DAY_MS) * DAY_MS, this.#wallMs + 2 * DAY_MS)
  }
}
