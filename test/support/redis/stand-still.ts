/** Keeps our event loop from turning for so long. It sleeps: a Redis on a busy machine can use the processor meanwhile. */
export function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
