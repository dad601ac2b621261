import { failed } from './grpc-method.ts'
import { RESOURCE_EXHAUSTED } from './grpc-status.ts'

export const NO_MEMORY = failed(RESOURCE_EXHAUSTED, 'too many messages are on their way')

/** Bounds the memory of messages that have come in part, for all connections of a worker. */
export class PartialMessages {
  readonly #maxBytes: number
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Returns false, and changes nothing, when there is no room. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#maxBytes) return false
    this.#bytes += bytes
    return true
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes
  }
}
