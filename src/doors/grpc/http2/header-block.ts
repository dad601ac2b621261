import { GrowingBuffer } from '../../../growing-buffer.ts'
import type { PartialMessages } from '../partial-messages.ts'

/** More than a block of the largest size needs; empty frames count, too. */
const MAX_CONTINUATIONS = 8

/** A header block that comes in several frames. Until it is whole, nothing else may come. */
export class HeaderBlock {
  readonly streamId: number
  readonly isEnd: boolean
  readonly #maxBytes: number
  readonly #partial: PartialMessages
  readonly #bytes = new GrowingBuffer()
  #continuations = -1

  constructor(streamId: number, isEnd: boolean, maxBytes: number, partial: PartialMessages) {
    this.streamId = streamId
    this.isEnd = isEnd
    this.#maxBytes = maxBytes
    this.#partial = partial
  }

  get bytes(): Buffer {
    return this.#bytes.bytes
  }

  /** Returns false when it is too long, or in too many pieces, or when there is no memory. */
  add(piece: Buffer): boolean {
    if (!this.#partial.take(piece.length)) return false
    this.#bytes.add(piece)
    return ++this.#continuations <= MAX_CONTINUATIONS && this.#bytes.size <= this.#maxBytes
  }

  /** To be called when it is not needed any more. */
  giveBack(): void {
    this.#partial.giveBack(this.#bytes.size)
  }
}
