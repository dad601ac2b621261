import { getSystemErrorMap } from 'node:util'
import { ALGORITHMS } from '../../limiter/algorithms/algorithms.ts'
import { DAY_MS } from '../../limiter/calendar.ts'
import { RESET, worthMs } from '../table/table-layout.ts'
import type { RecordBatch, TaggedRecord } from '../table/table-records.ts'

/**
 * The format of a state file, all little-endian:
 *
 *     header    magic (8) | version (u32) | 0 (u32) | hash key (2 × i32) | wall ms (f64) | monotonic ms (f64)
 *     sections  type (u32) | payload bytes (u32) | wall ms (f64) | monotonic ms (f64) | payload
 *     end       a section of type 0 without a payload | sha256 of all before it
 *
 * There may be any number of sections, in any order, and several may have the same type. A type always stands for the same layout: a new
 * layout gets a new type, and programs that cannot read it write it back unchanged. Types from 500 on are not records. Types up to 255 are
 * kinds of records, and then the payload consists of
 *
 *     record    tag (2 × i32) | level (f64) | at (f64) | size (f32) | rate (f32)
 *
 * A time on the monotonic clock means nothing to another process. Each section therefore has both clocks at one moment, so that it stays
 * valid in a file that was saved later by a program that could not read it.
 */
export interface Moment {
  readonly wallMs: number
  readonly nowMs: number
}

export interface StateHeader extends Moment {
  readonly version: number
  /** The key of the hash that made the tags. */
  readonly hashKey: readonly [number, number]
}

export interface SectionHeader extends Moment {
  readonly type: number
  readonly bytes: number
}

export const HEADER_BYTES = 40
export const SECTION_HEADER_BYTES = 24
export const RECORD_BYTES = 32
export const DIGEST_BYTES = 32
/** The type of the section that ends a file. */
export const END = 0
/** The identity of this instance and its settled reservations, as bytes that `src/reservations/` reads. */
export const RESERVATION_IDENTITY = 500
export const SETTLED_RESERVATIONS = 501
/** Overrides, a line of text for each (`src/overrides/`). */
export const OVERRIDES = 502
/** What requests in flight would give back (`open-amounts.ts`). */
export const OPEN_AMOUNTS = 503

const VERSION = 2
const MAGIC = Buffer.from('EDGSTATE', 'latin1')

export function encodeHeader(view: DataView, { hashKey, wallMs, nowMs }: Omit<StateHeader, 'version'>): void {
  for (const [i, byte] of MAGIC.entries()) view.setUint8(i, byte)
  view.setUint32(8, VERSION, true)
  view.setUint32(12, 0, true)
  view.setInt32(16, hashKey[0], true)
  view.setInt32(20, hashKey[1], true)
  view.setFloat64(24, wallMs, true)
  view.setFloat64(32, nowMs, true)
}

/** Returns the header, or what is wrong with it: a file that is not ours is recognised before anything else is read. */
export function decodeHeader(view: DataView): StateHeader | string {
  if (view.byteLength < MAGIC.length || MAGIC.some((byte, i) => view.getUint8(i) !== byte)) return 'it is not a state file'
  if (view.byteLength < HEADER_BYTES) return CUT_OFF
  const version = view.getUint32(8, true)
  if (version < 1 || version > VERSION) return `its format is version ${version}, and this program knows versions 1 to ${VERSION}`
  const [wallMs, nowMs] = [view.getFloat64(24, true), view.getFloat64(32, true)]
  if (!Number.isFinite(wallMs) || !Number.isFinite(nowMs)) return NONSENSE
  return { version, hashKey: [view.getInt32(16, true), view.getInt32(20, true)], wallMs, nowMs }
}

export function encodeSectionHeader(view: DataView, { type, bytes, wallMs, nowMs }: SectionHeader): void {
  view.setUint32(0, type, true)
  view.setUint32(4, bytes, true)
  view.setFloat64(8, wallMs, true)
  view.setFloat64(16, nowMs, true)
}

export function decodeSectionHeader(view: DataView): SectionHeader {
  const [type, bytes] = [view.getUint32(0, true), view.getUint32(4, true)]
  return { type, bytes, wallMs: view.getFloat64(8, true), nowMs: view.getFloat64(16, true) }
}

/** Writes one row of a batch. */
export function encodeRecord(view: DataView, offset: number, batch: RecordBatch, row: number): void {
  view.setInt32(offset, batch.lows[row]!, true)
  view.setInt32(offset + 4, batch.highs[row]!, true)
  view.setFloat64(offset + 8, batch.levels[row]!, true)
  view.setFloat64(offset + 16, batch.ats[row]!, true)
  view.setFloat32(offset + 24, batch.sizes[row]!, true)
  view.setFloat32(offset + 28, batch.rates[row]!, true)
}

/** Reads all but the kind into an object that is reused across records. Returns whether the numbers are valid. */
export function decodeRecord(view: DataView, offset: number, into: TaggedRecord): boolean {
  into.low = view.getInt32(offset, true)
  into.high = view.getInt32(offset + 4, true)
  into.level = view.getFloat64(offset + 8, true)
  into.at = view.getFloat64(offset + 16, true)
  into.size = view.getFloat32(offset + 24, true)
  into.rate = view.getFloat32(offset + 28, true)
  const { level, at, size, rate } = into
  return Number.isFinite(level) && Number.isFinite(at) && Number.isFinite(size) && Number.isFinite(rate) && size > 0 && rate >= 0
}

/*
 * Limits of every kind and resets are saved, each kind in sections of its own. Leases are not saved: they are given back when the process
 * ends, and a saved one would be spent twice.
 */

/** No window is longer than a year, and no reset is kept longer than its window and a day. */
const MAX_AHEAD_MS = 367 * DAY_MS
/** How far the clock of Redis may be ahead of ours. */
const MAX_SKEW_MS = DAY_MS

export function isSavedKind(kind: number): boolean {
  return clockOf(kind) !== undefined
}

/**
 * Returns whether a record is saved. A record that ends more than a year later comes from a wrong clock, and would be kept for as long as
 * that clock was ahead.
 */
export function isKeptFrom(moment: Moment, kind: number, at: number): boolean {
  const clock = clockOf(kind)
  return clock === 'monotonic' || (clock === 'wall' && at <= moment.wallMs + MAX_AHEAD_MS)
}

/** Converts a saved record to the clocks of this process. Returns whether it is still live. */
export function bringTo(present: Moment, saved: Moment, record: TaggedRecord): boolean {
  if (!isKeptFrom(saved, record.kind, record.at) || isFromTheFuture(saved, record)) return false
  if (clockOf(record.kind) === 'monotonic') {
    // If the clock was set back, no time has passed: refill from before the save stays, and no bucket waits for the clock to catch up.
    const downMs = Math.max(0, present.wallMs - saved.wallMs)
    record.at = Math.min(record.at - saved.nowMs - downMs + present.nowMs, present.nowMs)
  }
  return worthMs(record, present.nowMs, present.wallMs) > 0
}

/** Returns whether a reset is so far ahead of the save that it comes from a wrong clock: everything taken since would count as older. */
function isFromTheFuture(saved: Moment, { kind, level }: TaggedRecord): boolean {
  return kind === RESET && level > saved.wallMs + MAX_SKEW_MS
}

/** Returns the clock of `at` in records of this kind, or undefined if the kind is not saved. */
function clockOf(kind: number): 'monotonic' | 'wall' | undefined {
  return kind === RESET ? 'wall' : ALGORITHMS[kind]?.clock
}

/** Thrown if the file is not as it was saved. The message is a clause about the file, such as "it is cut off". */
export class StateDamage extends Error {}

export const CUT_OFF = 'it is truncated'
export const WRONG_CHECKSUM = 'its checksum is wrong: it was truncated or changed'
export const NONSENSE = 'it contains impossible values'

/** Thrown if the state file cannot be used. The message is a sentence; `code` is that of the system. */
export class StateFault extends Error {
  readonly code: string | undefined

  constructor(whatFailed: string, cause: unknown) {
    super(`${whatFailed}: ${reasonOf(cause as NodeJS.ErrnoException)}`, { cause })
    this.code = (cause as NodeJS.ErrnoException).code
  }
}

// Node has no message for this error.
const EDQUOT = -122

function reasonOf({ errno, message }: NodeJS.ErrnoException): string {
  if (errno === EDQUOT && process.platform === 'linux') return 'disk quota exceeded'
  return getSystemErrorMap().get(errno ?? 0)?.[1] ?? message
}
