import { setImmediate as turn } from 'node:timers/promises'

/** How long a thread that serves, or supervises, may do something else at a time. */
const SLICE_MS = 2

/** Takes all the steps, and lets what else there is to do through in between. `onSlice` learns how long each took. Returns what they end with. */
export async function inSlices<Result>(steps: Generator<void, Result>, onSlice?: (tookMs: number) => void): Promise<Result> {
  for (;;) {
    const startMs = performance.now()
    let step: IteratorResult<void, Result>
    do step = steps.next()
    while (!step.done && performance.now() < startMs + SLICE_MS)
    onSlice?.(performance.now() - startMs)
    if (step.done) return step.value
    await turn()
  }
}
