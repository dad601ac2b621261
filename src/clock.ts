/** Both kinds of time. Counters run on `nowMs`; the wall clock serves UTC days and what people read. */
export interface Clock {
  /** Milliseconds that only ever grow, the same for all threads of the process. */
  nowMs(): number
  /** Unix time in milliseconds. */
  wallMs(): number
}

// Each thread's performance.now() starts at its own zero; hrtime has one zero for all of them. A pause between the two
// readings makes the difference too small, so the largest of a few is the true one.
const offsetMs = Math.max(...Array.from({ length: 8 }, () => Number(process.hrtime.bigint()) / 1e6 - performance.now()))

export const systemClock: Clock = {
  nowMs: () => performance.now() + offsetMs,
  wallMs: () => Date.now(),
}
