/**
 * Does pieces of work one after the other, so that only one of them takes memory. Whoever asks for a piece that waits or is under way gets the
 * same result, and where too many wait, another one is refused.
 */
export class OneAtATime {
  readonly #maxWaiting: number
  /** By key; the first one is under way. */
  readonly #pieces = new Map<string, Promise<unknown>>()
  #last: Promise<unknown> = Promise.resolve()

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting
  }

  /** Returns undefined if the work is refused. */
  do<Result>(key: string, work: () => Promise<Result>): Promise<Result> | undefined {
    const same = this.#pieces.get(key)
    if (same !== undefined) return same as Promise<Result>
    if (this.#pieces.size > this.#maxWaiting) return undefined
    const done = this.#last.then(work).finally(() => this.#pieces.delete(key))
    this.#pieces.set(key, done)
    this.#last = done.catch(() => {}) // whoever asked gets the failure
    return done
  }
}
