/** How long other work may block a thread that serves or supervises. */
const SLICE_MS = 2

export interface SlicedWork<Result> {
  readonly steps: Generator<void, Result>
  /** Gets how long each slice took. */
  readonly onSlice?: (tookMs: number) => void
  readonly onDone: (result: Result) => void
  readonly onError: (error: unknown) => void
}

/**
 * Runs all steps, the callbacks included, in turns of the event loop of their own, and never as continuations of a promise: where a thread
 * is terminated in the middle of such a continuation, Node 20 goes on to parse HTTP with an engine that is shutting down, and aborts the
 * whole process.
 */
export function runInSlices<Result>({ steps, onSlice, onDone, onError }: SlicedWork<Result>): void {
  const runSlice = (): void => {
    const startMs = performance.now()
    try {
      let step: IteratorResult<void, Result>
      do step = steps.next()
      while (!step.done && performance.now() < startMs + SLICE_MS)
      onSlice?.(performance.now() - startMs)
      if (step.done) onDone(step.value)
      else setImmediate(runSlice)
    } catch (error) {
      onError(error)
    }
  }
  setImmediate(runSlice)
}

/** The same for whoever wants a promise. */
export function inSlices<Result>(steps: Generator<void, Result>): Promise<Result> {
  return new Promise((resolve, reject) => runInSlices({ steps, onDone: resolve, onError: reject }))
}
