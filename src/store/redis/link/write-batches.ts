import type { Call, Deadlines, WriteBatch } from './call.ts'
import type { Pipeline } from './pipeline.ts'

/**
 * Writes all calls of a turn of the event loop at once, and times out those without a reply, with one timer for all. Before a call times
 * out, the sockets are read once more: if our own event loop was late, the replies are waiting there.
 */
export class WriteBatches {
  readonly #timeoutMs: number
  readonly #deadlines: Deadlines
  #next: Call[] = []
  #unsent: Pipeline[] = []
  #isScheduled = false
  /** Batches in the order in which they were sent. Finished ones are dropped with the next batch, or by the timer. */
  readonly #sent: WriteBatch[] = []
  #cancelTimer: (() => void) | undefined

  constructor(timeoutMs: number, deadlines: Deadlines) {
    this.#timeoutMs = timeoutMs
    this.#deadlines = deadlines
  }

  /** Adds a call, which the caller adds to the pipeline next. */
  add(call: Call, pipeline: Pipeline): void {
    this.#next.push(call)
    this.flushLater(pipeline)
  }

  /** Sends what is added to the pipeline in this turn at the end of the turn. */
  flushLater(pipeline: Pipeline): void {
    if (!this.#unsent.includes(pipeline)) this.#unsent.push(pipeline)
    if (this.#isScheduled) return
    this.#isScheduled = true
    // This runs after the poll phase, so that requests that arrived on many connections share one write.
    setImmediate(this.#send)
  }

  /** Stops waiting for replies. Returns the calls that have none. */
  close(): Call[] {
    this.#cancelTimer?.()
    const pending = [...this.#sent.splice(0).flatMap(({ calls }) => calls), ...this.#next]
    this.#next = []
    return pending.filter(({ isDone }) => !isDone)
  }

  readonly #send = (): void => {
    this.#isScheduled = false
    for (const pipeline of this.#unsent) pipeline.flush()
    this.#unsent = []
    if (this.#next.length === 0) return
    const calls = this.#next.filter(({ isDone }) => !isDone)
    this.#next = []
    if (calls.length === 0) return
    const nowMs = this.#deadlines.nowMs()
    const batch = { sentMs: performance.now(), dueMs: nowMs + this.#timeoutMs, calls, pendingCount: calls.length }
    for (const call of calls) call.batch = batch
    while (this.#sent[0]?.pendingCount === 0) this.#sent.shift()
    this.#sent.push(batch)
    if (this.#cancelTimer === undefined) this.#arm(nowMs)
  }

  #arm(nowMs: number): void {
    const first = this.#sent[0]
    this.#cancelTimer = first === undefined ? undefined : this.#deadlines.after(Math.ceil(first.dueMs - nowMs), this.#onTimer)
  }

  readonly #onTimer = (): void => {
    // Timers may fire up to a millisecond early.
    const nowMs = this.#deadlines.nowMs() + 1
    setImmediate(() => this.#expire(nowMs))
  }

  #expire(nowMs: number): void {
    for (;;) {
      const first = this.#sent[0]
      if (first === undefined || (first.pendingCount > 0 && first.dueMs > nowMs)) break
      this.#sent.shift()
      for (const call of first.calls) if (!call.isDone) call.onTimeout?.(call)
    }
    this.#arm(this.#deadlines.nowMs())
  }
}
