import type { CallStream } from './call-stream.ts'

/** The streams under way, by their numbers. Most calls are answered before the next one begins: the newest stream is kept apart and costs no entry in a map. */
export class OpenCallStreams {
  #newest: CallStream | undefined
  readonly #others = new Map<number, CallStream>()

  get size(): number {
    return this.#others.size + (this.#newest === undefined ? 0 : 1)
  }

  get(id: number): CallStream | undefined {
    return this.#newest?.id === id ? this.#newest : this.#others.get(id)
  }

  add(stream: CallStream): void {
    this.#keepNewest()
    this.#newest = stream
  }

  delete(stream: CallStream): void {
    if (this.#newest === stream) this.#newest = undefined
    else this.#others.delete(stream.id)
  }

  /** The oldest first. Streams may be deleted meanwhile. */
  all(): Iterable<CallStream> {
    this.#keepNewest()
    return this.#others.values()
  }

  #keepNewest(): void {
    if (this.#newest !== undefined) this.#others.set(this.#newest.id, this.#newest)
    this.#newest = undefined
  }
}
