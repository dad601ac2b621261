import { setImmediate as turn } from 'node:timers/promises'

/** How long other work may block a thread that serves or supervises. */
const SLICE_MS = 2

/** Runs all steps and yields to the event loop in between. `onSlice` gets how long each slice took. Returns their result. */
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
