/** How long to wait after so many failures in a row (1, 2, …): doubled with each, up to the longest. */
export function backoffMs(firstMs: number, longestMs: number, failures: number): number {
  return Math.min(firstMs * 2 ** (failures - 1), longestMs)
}

/** Counts the failures itself. Each wait is shortened by up to a quarter, so that a fleet does not retry in step. */
export class Backoff {
  readonly #firstMs: number
  readonly #longestMs: number
  #failures = 0

  constructor(firstMs: number, longestMs: number) {
    this.#firstMs = firstMs
    this.#longestMs = longestMs
  }

  nextMs(): number {
    return backoffMs(this.#firstMs, this.#longestMs, ++this.#failures) * (1 - Math.random() / 4)
  }

  reset(): void {
    this.#failures = 0
  }
}
