/** After this much work, the browser gets time to draw and to respond. */
const SLICE_MS = 10

/** Does long work a slice at a time. Returns undefined if it was stopped. */
export async function inSlices<Result>(steps: Generator<void, Result>, stop: AbortSignal): Promise<Result | undefined> {
  for (let sliceEndMs = performance.now() + SLICE_MS; ; ) {
    const { done, value } = steps.next()
    if (done) return value
    if (performance.now() < sliceEndMs) continue
    await new Promise((resolve) => setTimeout(resolve))
    if (stop.aborted) return undefined
    sliceEndMs = performance.now() + SLICE_MS
  }
}
