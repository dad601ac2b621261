import type { Writable } from 'node:stream'
import type { Call, WriteBatch } from './call.ts'

/**
 * Writes all calls of a turn of the event loop at once, and times out those without a reply, with one timer for all. Before a call
 * times out the sockets are read once more: if our own event loop was late, the replies are waiting there.
 */
export class WriteBatches {
  readonly #timeoutMs: number
  #next: Call[] = []
  #corked: Writable[] = []
  #isScheduled = false
  /** In the order in which they were sent. Finished ones are dropped with the next batch, or by the timer. */
  readonly #sent: WriteBatch[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** The caller writes the call to the stream next. */
  add(call: Call, stream: Writable): void {
    this.#next.push(call)
    this.cork(stream)
  }

  /** What is written to the stream in this turn is sent at its end. */
  cork(stream: Writable): void {
    if (!this.#corked.includes(stream)) {
      stream.cork()
      this.#corked.push(stream)
    }
    if (this.#isScheduled) return
    this.#isScheduled = true
    // After the poll phase: requests that arrived on many connections share one write.
    setImmediate(this.#send)
  }

  /** Stops waiting. Returns the calls that have no reply. */
  close(): Call[] {
    clearTimeout(this.#timer)
    const pending = [...this.#sent.splice(0).flatMap(({ calls }) => calls), ...this.#next]
    this.#next = []
    return pending.filter(({ isDone }) => !isDone)
  }

  readonly #send = (): void => {
    this.#isScheduled = false
    for (const stream of this.#corked) stream.uncork()
    this.#corked = []
    if (this.#next.length === 0) return
    const calls = this.#next.filter(({ isDone }) => !isDone)
    this.#next = []
    if (calls.length === 0) return
    const batch = { sentMs: performance.now(), calls, pendingCount: calls.length }
    for (const call of calls) call.batch = batch
    while (this.#sent[0]?.pendingCount === 0) this.#sent.shift()
    this.#sent.push(batch)
    if (this.#timer === undefined) this.#arm(batch.sentMs)
  }

  #arm(nowMs: number): void {
    const first = this.#sent[0]
    this.#timer = first === undefined ? undefined : setTimeout(this.#onTimer, Math.ceil(first.sentMs + this.#timeoutMs - nowMs))
  }

  readonly #onTimer = (): void => {
    // Timers may fire up to a millisecond early.
    const nowMs = performance.now() + 1
    setImmediate(() => this.#expire(nowMs))
  }

  #expire(nowMs: number): void {
    for (;;) {
      const first = this.#sent[0]
      if (first === undefined || (first.pendingCount > 0 && first.sentMs + this.#timeoutMs > nowMs)) break
      this.#sent.shift()
      for (const call of first.calls) if (!call.isDone) call.onTimeout?.(call)
    }
    this.#arm(performance.now())
  }
}
