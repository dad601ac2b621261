import type { BodyMemory } from './body-memory.ts'
import type { MemoryHolder } from './memory-part.ts'
import type { ReadBody } from './request-body.ts'

/**
 * What was read of the body of a request that is being forwarded, until no call can need it any more. If there are several backends, its memory is
 * counted for the one that has the request, so that one which hangs does not hold the memory of all.
 */
export class HeldBody {
  readonly #memory: BodyMemory
  #read: ReadBody | undefined
  #backend: MemoryHolder | undefined

  constructor(memory: BodyMemory) {
    this.#memory = memory
  }

  get read(): ReadBody | undefined {
    return this.#read
  }

  keep(body: ReadBody | undefined): void {
    this.#read = body
  }

  /** Counts the memory for the backend at this URL, and no longer for another one. Returns false if that backend's requests hold too much already. */
  moveTo(url: URL): boolean {
    this.#leaveBackend()
    const bytes = this.#read?.bytes.length ?? 0
    if (bytes === 0) return true
    const backend = this.#memory.holder(['backend', url.href], 1)
    if (!this.#memory.beginCall(backend, bytes)) return false
    this.#backend = backend
    return true
  }

  release(): void {
    this.#leaveBackend()
    this.#read?.release()
    this.#read = undefined
  }

  #leaveBackend(): void {
    if (this.#backend !== undefined) this.#memory.endCall(this.#backend, this.#read!.bytes.length)
    this.#backend = undefined
  }
}
