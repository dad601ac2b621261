import { setImmediate as turn } from 'node:timers/promises'

/** How long a thread that serves, or supervises, may do something else at a time. */
const SLICE_MS = 2

/** Takes all the steps, and lets what else there is to do through in between. Returns what they end with. */
export async function inSlices<Result>(steps: Generator<void, Result>): Promise<Result> {
  for (;;) {
    const endMs = performance.now() + SLICE_MS
    do {
      const { done, value } = steps.next()
      if (done) return value
    } while (performance.now() < endMs)
    await turn()
  }
}
