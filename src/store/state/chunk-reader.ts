import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { CUT_OFF, StateDamage } from './state-damage.ts'

/** The most that is read or written at once. */
export const CHUNK_BYTES = 256 * 1024

/** Reads a file from its beginning, a chunk at a time, with the checksum of what was taken. */
export class ChunkReader {
  readonly #handle: FileHandle
  readonly #hash = createHash('sha256')
  readonly #chunk = Buffer.alloc(CHUNK_BYTES)
  /** Bytes that were read and not taken yet are between the two. */
  #start = 0
  #end = 0
  #bytesLeft: number

  constructor(handle: FileHandle, fileBytes: number) {
    this.#handle = handle
    this.#bytesLeft = fileBytes
  }

  /** Bytes of the file after those that were taken. */
  get bytesLeft(): number {
    return this.#bytesLeft
  }

  /** The next bytes, valid until the next call. Throws StateDamage where there are fewer. */
  async take(length: number): Promise<Buffer> {
    const bytes = await this.#next(length)
    this.#hash.update(bytes)
    return bytes
  }

  async takeView(length: number): Promise<DataView> {
    const bytes = await this.take(length)
    return new DataView(bytes.buffer, bytes.byteOffset, length)
  }

  /** Whether the next bytes are the checksum of all that was taken. Ends the checksum. */
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
