import { createHash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { DAY_MS } from '../../limiter/calendar.ts'
import { BUCKET, WINDOW } from '../../limiter/limit.ts'
import type { TaggedRecord } from '../table/table-records.ts'
import {
  CUT_OFF,
  DIGEST_BYTES,
  decodeHeader,
  decodeRecord,
  decodeSectionHeader,
  END,
  HEADER_BYTES,
  isSavedKind,
  type Moment,
  NONSENSE,
  OPEN_AMOUNTS,
  OVERRIDES,
  RECORD_BYTES,
  RESERVATION_IDENTITY,
  SECTION_HEADER_BYTES,
  SETTLED_RESERVATIONS,
  type SectionHeader,
  StateDamage,
  type StateHeader,
  WRONG_CHECKSUM,
} from './state-format.ts'

/** Types of sections that are not records, and that other rooms read. */
const PAYLOADS: ReadonlySet<number> = new Set([RESERVATION_IDENTITY, SETTLED_RESERVATIONS, OVERRIDES, OPEN_AMOUNTS])
const MAX_PAYLOAD_BYTES = 4 * 1024 * 1024

export interface Scan {
  readonly header: StateHeader
  /** Number of counters and of resets of counters. */
  readonly counters: number
}

/**
 * Reads a state file in chunks, however large it is. Throws StateDamage if the file is not intact, which is known only at its end: until
 * then, the listener must not rely on what it gets.
 */
export async function scanState(path: string, listener: ScanListener): Promise<Scan> {
  const handle = await open(path)
  try {
    const { size } = await handle.stat()
    const reader = new ChunkReader(handle, size)
    const header = decodeHeader(await reader.takeView(Math.min(size, HEADER_BYTES)))
    if (typeof header === 'string') throw new StateDamage(header)
    const counters = header.version === 1 ? await scanVersion1(reader, header, listener) : await scanSections(reader, listener)
    return { header, counters }
  } finally {
    await handle.close()
  }
}

/** Returns the number of records. */
async function scanSections(reader: ChunkReader, listener: ScanListener): Promise<number> {
  let counters = 0
  // Nonsense is reported after the checksum was compared: if that is wrong too, the file was changed, and that is the better reason.
  let isSound = true
  for (let isEnd = false; !isEnd; ) {
    const section = await nextSection(reader, listener)
    isEnd = section.type === END
    isSound = Number.isFinite(section.wallMs) && Number.isFinite(section.nowMs) && isSound
    if (isEnd) isSound = section.bytes === 0 && isSound
    else if (isPayload(section)) await readPayload(reader, section, listener)
    else if (!isSavedKind(section.type)) await readUnknown(reader, section, listener)
    else if (await scanRecords(reader, section, listener)) counters += section.bytes / RECORD_BYTES
    else isSound = false
  }
  if (!(await reader.takeChecksum())) throw new StateDamage(WRONG_CHECKSUM)
  if (!isSound) throw new StateDamage(NONSENSE)
  if (reader.bytesLeft > 0) throw new StateDamage('it has data after its end')
  return counters
}

async function nextSection(reader: ChunkReader, listener: ScanListener): Promise<SectionHeader> {
  const bytes = await reader.take(SECTION_HEADER_BYTES)
  const section = decodeSectionHeader(new DataView(bytes.buffer, bytes.byteOffset, SECTION_HEADER_BYTES))
  if (section.bytes > reader.bytesLeft - DIGEST_BYTES) throw new StateDamage(CUT_OFF)
  if (section.type !== END && !isSavedKind(section.type) && !isPayload(section)) listener.onUnknown?.(bytes)
  return section
}

/** Returns whether the section is one that other rooms read. One that is larger than any that this program writes counts as unknown. */
function isPayload({ type, bytes }: SectionHeader): boolean {
  return PAYLOADS.has(type) && bytes <= MAX_PAYLOAD_BYTES
}

async function readPayload(reader: ChunkReader, { type, bytes }: SectionHeader, listener: ScanListener): Promise<void> {
  const payload = Buffer.alloc(bytes)
  for (let at = 0; at < bytes; ) at += (await reader.take(Math.min(bytes - at, CHUNK_BYTES))).copy(payload, at)
  listener.onPayload?.(type, payload)
}

async function readUnknown(reader: ChunkReader, section: SectionHeader, listener: ScanListener): Promise<void> {
  for (let left = section.bytes; left > 0; ) {
    const bytes = await reader.take(Math.min(left, CHUNK_BYTES))
    left -= bytes.length
    listener.onUnknown?.(bytes)
  }
}

/** Returns whether the whole section consists of valid records. */
async function scanRecords(reader: ChunkReader, section: SectionHeader, listener: ScanListener): Promise<boolean> {
  const record: TaggedRecord = { kind: section.type, low: 0, high: 0, level: 0, at: 0, size: 0, rate: 0 }
  let isSound = section.bytes % RECORD_BYTES === 0
  for (let left = section.bytes; left > 0; ) {
    const view = await reader.takeView(Math.min(left, CHUNK_BYTES))
    left -= view.byteLength
    for (let offset = 0; offset + RECORD_BYTES <= view.byteLength; offset += RECORD_BYTES) {
      if (decodeRecord(view, offset, record)) listener.onRecord(record, section)
      else isSound = false
    }
  }
  return isSound
}

/** Receives the content of a state file. Arguments are valid only until the next call. */
interface ScanListener {
  /** `saved` is the moment at which the record was saved. */
  onRecord(record: TaggedRecord, saved: Moment): void
  /** Called for a section that is not made of records, with a copy of its payload. */
  onPayload?(type: number, payload: Buffer): void
  /** Called with the next bytes of sections that this program cannot read, including their headers. */
  onUnknown?(bytes: Buffer): void
}

/** The most bytes that are read or written at once. */
export const CHUNK_BYTES = 256 * 1024

/** Reads a file from its beginning, a chunk at a time, and computes the checksum of what was taken. */
class ChunkReader {
  readonly #handle: FileHandle
  readonly #hash = createHash('sha256')
  readonly #chunk = Buffer.alloc(CHUNK_BYTES)
  /** Bytes that were read and not taken yet lie between `#start` and `#end`. */
  #start = 0
  #end = 0
  #bytesLeft: number

  constructor(handle: FileHandle, fileBytes: number) {
    this.#handle = handle
    this.#bytesLeft = fileBytes
  }

  /** Number of bytes of the file after those that were taken. */
  get bytesLeft(): number {
    return this.#bytesLeft
  }

  /** Returns the next bytes, which are valid until the next call. Throws StateDamage if there are fewer. */
  async take(length: number): Promise<Buffer> {
    const bytes = await this.#next(length)
    this.#hash.update(bytes)
    return bytes
  }

  async takeView(length: number): Promise<DataView> {
    const bytes = await this.take(length)
    return new DataView(bytes.buffer, bytes.byteOffset, length)
  }

  /** Returns whether the next bytes are the checksum of all that was taken. Nothing can be taken after that. */
  async takeChecksum(): Promise<boolean> {
    const digest = this.#hash.digest()
    return digest.equals(await this.#next(digest.length))
  }

  async #next(length: number): Promise<Buffer> {
    if (this.#end - this.#start < length) await this.#fill(length)
    const bytes = this.#chunk.subarray(this.#start, this.#start + length)
    this.#start += length
    this.#bytesLeft -= length
    return bytes
  }

  async #fill(length: number): Promise<void> {
    this.#chunk.copyWithin(0, this.#start, this.#end)
    this.#end -= this.#start
    this.#start = 0
    while (this.#end < length) {
      const { bytesRead } = await this.#handle.read(this.#chunk, this.#end, CHUNK_BYTES - this.#end, null)
      if (bytesRead === 0) throw new StateDamage(CUT_OFF)
      this.#end += bytesRead
    }
  }
}

const COUNT_BYTES = 8

/**
 * Reads a file of version 1, which earlier builds wrote, after its header: records, their number (f64), and a sha256 of all before it. A
 * record is a bucket, or a UTC day if its rate is 0; a day's end is on the monotonic clock. Returns the number of records.
 */
async function scanVersion1(reader: ChunkReader, saved: Moment, listener: ScanListener): Promise<number> {
  const count = (reader.bytesLeft - COUNT_BYTES - DIGEST_BYTES) / RECORD_BYTES
  if (count < 0 || !Number.isInteger(count)) throw new StateDamage(CUT_OFF)
  const record: TaggedRecord = { kind: 0, low: 0, high: 0, level: 0, at: 0, size: 0, rate: 0 }
  let isSound = true
  for (let left = count * RECORD_BYTES; left > 0; ) {
    const view = await reader.takeView(Math.min(left, CHUNK_BYTES))
    left -= view.byteLength
    for (let offset = 0; offset < view.byteLength; offset += RECORD_BYTES) {
      if (decodeVersion1(view, offset, saved, record)) listener.onRecord(record, saved)
      else isSound = false
    }
  }
  const written = (await reader.takeView(COUNT_BYTES)).getFloat64(0, true)
  if (!(await reader.takeChecksum())) throw new StateDamage(WRONG_CHECKSUM)
  if (written !== count || !isSound) throw new StateDamage(NONSENSE)
  return count
}

function decodeVersion1(view: DataView, offset: number, saved: Moment, into: TaggedRecord): boolean {
  if (!decodeRecord(view, offset, into)) return false
  into.kind = into.rate === 0 ? WINDOW : BUCKET
  if (into.kind === WINDOW) into.at = dayEnd(into.at - saved.nowMs + saved.wallMs, saved)
  return true
}

/**
 * Returns when a day ends. It ends at a midnight, and the nearest one is right even if the clock was changed by some hours between the
 * day's first request and the save. If a wrong clock puts the end further ahead, the day is kept for two days, not for years.
 */
function dayEnd(at: number, saved: Moment): number {
  return Math.min(Math.round(at / DAY_MS) * DAY_MS, saved.wallMs + 2 * DAY_MS)
}
