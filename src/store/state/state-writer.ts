import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import type { RecordBatch } from '../table-records.ts'
import { CHUNK_BYTES } from './chunk-reader.ts'
import { isKeptFrom } from './saved-kinds.ts'
import {
  END,
  encodeHeader,
  encodeRecord,
  encodeSectionHeader,
  HEADER_BYTES,
  type Moment,
  RECORD_BYTES,
  SECTION_HEADER_BYTES,
  type StateHeader,
} from './state-format.ts'

/**
 * Writes a state file from start to end. Records are gathered by kind; all sections are written as soon as one kind has filled a chunk, so
 * that memory is bounded by the number of kinds.
 */
export class StateWriter {
  /** Records so far. */
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

  /** `unknownSections` are those of the previous file, which are copied into this one. */
  static async begin(handle: FileHandle, header: Omit<StateHeader, 'version'>, unknownSections: Buffer): Promise<StateWriter> {
    const writer = new StateWriter(handle, header)
    const bytes = Buffer.alloc(HEADER_BYTES)
    encodeHeader(viewOf(bytes), header)
    await writer.#write(bytes)
    for (let at = 0; at < unknownSections.length; at += CHUNK_BYTES) await writer.#write(unknownSections.subarray(at, at + CHUNK_BYTES))
    return writer
  }

  /** Gathers those of a set's records that are saved. Returns false where `flush` must be called before the next set. */
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

  /** Writes all that was gathered. */
  async flush(): Promise<void> {
    for (const section of this.#gathered.values()) {
      if (!section.isEmpty) await this.#write(section.finish(this.#moment))
    }
  }

  /** A section that is not made of records. */
  async addSection(type: number, payload: Buffer): Promise<void> {
    const header = Buffer.alloc(SECTION_HEADER_BYTES)
    encodeSectionHeader(viewOf(header), { ...this.#moment, type, bytes: payload.length })
    await this.#write(header)
    for (let at = 0; at < payload.length; at += CHUNK_BYTES) await this.#write(payload.subarray(at, at + CHUNK_BYTES))
  }

  /** Returns the size of the file. */
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

  async #write(bytes: Buffer): Promise<void> {
    this.#hash.update(bytes)
    await this.#handle.writeFile(bytes)
    this.#bytes += bytes.length
  }
}

/** A section that is being filled; used again after it was written. */
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

  /** The whole section, valid until the next record is added. */
  finish({ wallMs, nowMs }: Moment): Buffer {
    encodeSectionHeader(this.#view, { type: this.#kind, bytes: this.#used - SECTION_HEADER_BYTES, wallMs, nowMs })
    const section = this.#bytes.subarray(0, this.#used)
    this.#used = SECTION_HEADER_BYTES
    return section
  }
}

function viewOf(bytes: Buffer): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
}
