/**
 * Timers after which the link stops waiting for a server: of calls, of each step to a connection, of the first use. Tests hold them, so
 * that no server is given up because a machine is slow. Pauses before another attempt are not among them.
 */
export interface Deadlines {
  nowMs(): number
  /** Returns what cancels it. */
  after(ms: number, run: () => void): () => void
}

export const realDeadlines: Deadlines = {
  nowMs: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}
