/** Waits that double from the first to the longest. Each is shortened by up to a quarter, so that a fleet does not come all at once. */
export class Backoff {
  readonly #firstMs: number
  readonly #longestMs: number
  #tries = 0

  constructor(firstMs: number, longestMs: number) {
    this.#firstMs = firstMs
    this.#longestMs = longestMs
  }

  nextMs(): number {
    const waitMs = Math.min(this.#firstMs * 2 ** this.#tries, this.#longestMs)
    if (waitMs < this.#longestMs) this.#tries += 1
    return waitMs * (1 - Math.random() / 4)
  }

  reset(): void {
    this.#tries = 0
  }
}
