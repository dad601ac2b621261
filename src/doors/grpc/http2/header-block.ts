import { GrowingBuffer } from '../../../growing-buffer.ts'

/** More than a block of the largest size needs; empty frames count, too. */
const MAX_CONTINUATIONS = 8

/** A header block that comes in several frames. Until it is whole, nothing else may come. */
export class HeaderBlock {
  readonly streamId: number
  readonly isEnd: boolean
  readonly #maxBytes: number
  readonly #bytes = new GrowingBuffer()
  #continuations = -1

  constructor(streamId: number, isEnd: boolean, maxBytes: number) {
    this.streamId = streamId
    this.isEnd = isEnd
    this.#maxBytes = maxBytes
  }

  get bytes(): Buffer {
    return this.#bytes.bytes
  }

  /** Returns false when it is too long, or in too many pieces. */
  add(piece: Buffer): boolean {
    this.#bytes.add(piece)
    return ++this.#continuations <= MAX_CONTINUATIONS && this.#bytes.size <= this.#maxBytes
  }
}
