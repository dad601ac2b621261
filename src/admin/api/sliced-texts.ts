import { runInSlices } from '../../slices.ts'
import { TimeShare } from '../../time-share.ts'

/** What long responses may take of a worker's time. */
const SHARE = 0.1
const BURST_MS = 20

/** Makes long texts, and finds what is in them, a slice at a time, one text after the other: a worker that decides is never held up. */
export class SlicedTexts {
  readonly #time = new TimeShare(SHARE, BURST_MS, performance.now())
  /** The first is being made. */
  readonly #waiting: SlicedText[] = []

  make<Result>(steps: Generator<void, Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ steps, resolve: resolve as (result: unknown) => void, reject })
      if (this.#waiting.length === 1) this.#begin()
    })
  }

  #begin(): void {
    const waitMs = this.#time.waitMs(performance.now())
    if (waitMs > 0) {
      setTimeout(() => this.#begin(), waitMs).unref()
      return
    }
    const { steps, resolve, reject } = this.#waiting[0]!
    const end = (): void => {
      this.#waiting.shift()
      if (this.#waiting.length > 0) this.#begin()
    }
    runInSlices({
      steps,
      onSlice: (workMs) => this.#time.spend(workMs, performance.now()),
      onDone: (text) => {
        end()
        resolve(text)
      },
      onError: (error) => {
        end()
        reject(error)
      },
    })
  }
}

interface SlicedText {
  readonly steps: Generator<void, unknown>
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}
