import { open } from 'node:fs/promises'
import type { TaggedRecord } from '../table-records.ts'
import { CHUNK_BYTES, ChunkReader } from './chunk-reader.ts'
import { isSavedKind } from './saved-kinds.ts'
import type { ScanListener } from './scan-listener.ts'
import { CUT_OFF, NONSENSE, StateDamage, WRONG_CHECKSUM } from './state-damage.ts'
import {
  DIGEST_BYTES,
  decodeHeader,
  decodeRecord,
  decodeSectionHeader,
  END,
  HEADER_BYTES,
  OVERRIDES,
  RECORD_BYTES,
  RESERVATION_IDENTITY,
  SECTION_HEADER_BYTES,
  SETTLED_RESERVATIONS,
  type SectionHeader,
  type StateHeader,
} from './state-format.ts'
import { scanVersion1 } from './version-1.ts'

/** Types that are not records, and that others read. */
const PAYLOADS: ReadonlySet<number> = new Set([RESERVATION_IDENTITY, SETTLED_RESERVATIONS, OVERRIDES])
const MAX_PAYLOAD_BYTES = 4 * 1024 * 1024

export interface Scan {
  readonly header: StateHeader
  /** Counters, and resets of counters. */
  readonly counters: number
}

/**
 * Reads a state file in chunks, however large it is. Throws StateDamage where the file is not intact, which is known only at its end: until
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
  // Reported after the checksum: if that is wrong too, the file was changed, and that is the better reason.
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
  if (reader.bytesLeft > 0) throw new StateDamage('something follows its end')
  return counters
}

async function nextSection(reader: ChunkReader, listener: ScanListener): Promise<SectionHeader> {
  const bytes = await reader.take(SECTION_HEADER_BYTES)
  const section = decodeSectionHeader(new DataView(bytes.buffer, bytes.byteOffset, SECTION_HEADER_BYTES))
  if (section.bytes > reader.bytesLeft - DIGEST_BYTES) throw new StateDamage(CUT_OFF)
  if (section.type !== END && !isSavedKind(section.type) && !isPayload(section)) listener.onUnknown?.(bytes)
  return section
}

/** One that is larger than any that this program writes is not for it. */
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
