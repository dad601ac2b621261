import { createHash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import type { TaggedRecord } from '../table-records.ts'
import {
  COUNT_BYTES,
  DIGEST_BYTES,
  decodeHeader,
  decodeRecord,
  HEADER_BYTES,
  RECORD_BYTES,
  recordCount,
  type StateHeader,
} from './state-format.ts'

/** The file is not what was once saved; the message completes the sentence "it is no good: …". */
export class Damage extends Error {}

export interface ScanListener {
  onHeader?(header: StateHeader): void
  /** The record is good only until the next. */
  onRecord(record: TaggedRecord): void
}

export interface Scan {
  readonly header: StateHeader
  readonly counters: number
}

const CHUNK_RECORDS = 8192

/**
 * Goes through a state file in chunks, however large it is. What the listener hears is to be trusted when the end has
 * been reached: throws Damage where the file is not whole.
 */
export async function scanState(path: string, listener: ScanListener): Promise<Scan> {
  const handle = await open(path)
  try {
    const { size } = await handle.stat()
    return await new Scanner(handle, size).scan(listener)
  } finally {
    await handle.close()
  }
}

class Scanner {
  readonly #handle: FileHandle
  readonly #size: number
  readonly #hash = createHash('sha256')
  readonly #chunk = Buffer.alloc(CHUNK_RECORDS * RECORD_BYTES)

  constructor(handle: FileHandle, size: number) {
    this.#handle = handle
    this.#size = size
  }

  async scan(listener: ScanListener): Promise<Scan> {
    const header = decodeHeader(await this.#read(Math.min(this.#size, HEADER_BYTES)))
    if (typeof header === 'string') throw new Damage(header)
    const counters = recordCount(this.#size)
    if (counters === undefined) throw new Damage('it is cut off')
    listener.onHeader?.(header)
    const strangers = await this.#scanRecords(counters, listener)
    const written = (await this.#read(COUNT_BYTES)).getFloat64(0, true)
    const digest = this.#hash.digest()
    await this.#fill(DIGEST_BYTES)
    if (!digest.equals(this.#chunk.subarray(0, DIGEST_BYTES))) throw new Damage('its checksum is wrong: it was cut off or changed')
    if (written !== counters || strangers > 0) throw new Damage('its numbers make no sense')
    return { header, counters }
  }

  /** Answers how many there were that cannot be counters. */
  async #scanRecords(count: number, listener: ScanListener): Promise<number> {
    const record: TaggedRecord = { kind: 0, low: 0, high: 0, level: 0, at: 0, size: 0, rate: 0 }
    let strangers = 0
    for (let done = 0; done < count; done += CHUNK_RECORDS) {
      const view = await this.#read(Math.min(CHUNK_RECORDS, count - done) * RECORD_BYTES)
      for (let at = 0; at < view.byteLength; at += RECORD_BYTES) {
        if (decodeRecord(view, at, record)) listener.onRecord(record)
        else strangers++
      }
    }
    return strangers
  }

  /** The next so many bytes, good until the next call. */
  async #read(length: number): Promise<DataView> {
    await this.#fill(length)
    this.#hash.update(this.#chunk.subarray(0, length))
    return new DataView(this.#chunk.buffer, this.#chunk.byteOffset, length)
  }

  async #fill(length: number): Promise<void> {
    for (let filled = 0; filled < length; ) {
      const { bytesRead } = await this.#handle.read(this.#chunk, filled, length - filled, null)
      if (bytesRead === 0) throw new Damage('it is cut off')
      filled += bytesRead
    }
  }
}
