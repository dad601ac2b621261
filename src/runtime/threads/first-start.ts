/** So many workers may die before the service is open: a bundle that ends those who compile it is refused before that. */
const MAX_DEATHS = 10

/** The start: the first workers come up, all of them, and stay alive until every listener is open, or there is no service. */
export class FirstStart {
  /** Rejects with `failed`. */
  readonly up: Promise<void>
  /** Never resolves. */
  readonly failed: Promise<never>
  #isUp = false
  #isOver = false
  #deaths = 0
  #noteUp!: () => void
  #fail!: (error: Error) => void

  constructor() {
    this.failed = new Promise((_, reject) => {
      this.#fail = reject
    })
    this.failed.catch(() => {}) // a worker may die before anybody waits
    this.up = Promise.race([
      this.failed,
      new Promise<void>((resolve) => {
        this.#noteUp = resolve
      }),
    ])
    this.up.catch(() => {})
  }

  noteUp(): void {
    this.#isUp = true
    this.#noteUp()
  }

  /** Every listener is open. */
  noteOpen(): void {
    this.#isOver = true
  }

  /** Returns whether it may be replaced. */
  noteDeath(error: Error): boolean {
    if (this.#isOver || (this.#isUp && ++this.#deaths < MAX_DEATHS)) return true
    this.#fail(error)
    return false
  }
}
