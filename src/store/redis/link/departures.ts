import type { Writable } from 'node:stream'
import type { LinkError } from './link-error.ts'

/** A call under way. */
export interface Traveller {
  isDone: boolean
  departure: Departure | undefined
  /** No answer came in time. */
  expire(): void
  fail(error: LinkError): void
}

/** The calls of one turn of the event loop: they leave in one write and have one deadline. */
export interface Departure {
  sentMs: number
  travellers: readonly Traveller[]
  underWay: number
}

/**
 * Sends the calls of a turn together and ends those that get no answer, with one timer for all. A deadline is judged
 * after the sockets were read once more: when our own event loop was late, the answers are there and nobody is blamed.
 */
export class Departures {
  readonly #timeoutMs: number
  #boarding: Traveller[] = []
  #held: Writable[] = []
  #isScheduled = false
  readonly #onTheWay: Departure[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** The caller writes to the stream next. */
  board(traveller: Traveller, stream: Writable): void {
    this.#boarding.push(traveller)
    this.hold(stream)
  }

  /** What is written to the stream in this turn leaves at its end. */
  hold(stream: Writable): void {
    if (!this.#held.includes(stream)) {
      stream.cork()
      this.#held.push(stream)
    }
    if (this.#isScheduled) return
    this.#isScheduled = true
    // After the poll phase: what arrived on many connections leaves at once.
    setImmediate(this.#depart)
  }

  arrived(traveller: Traveller): void {
    const { departure } = traveller
    if (departure === undefined) return
    departure.underWay -= 1
    if (departure.underWay > 0) return
    departure.travellers = []
    while (this.#onTheWay[0]?.underWay === 0) this.#onTheWay.shift()
  }

  /** Nobody is waited for any more. Returns who was. */
  close(): Traveller[] {
    clearTimeout(this.#timer)
    const waiting = [...this.#onTheWay.splice(0).flatMap(({ travellers }) => travellers), ...this.#boarding]
    this.#boarding = []
    return waiting.filter(({ isDone }) => !isDone)
  }

  readonly #depart = (): void => {
    this.#isScheduled = false
    for (const stream of this.#held) stream.uncork()
    this.#held = []
    if (this.#boarding.length === 0) return
    const travellers = this.#boarding.filter(({ isDone }) => !isDone)
    this.#boarding = []
    const departure = { sentMs: performance.now(), travellers, underWay: travellers.length }
    for (const traveller of travellers) traveller.departure = departure
    if (travellers.length === 0) return
    this.#onTheWay.push(departure)
    if (this.#timer === undefined) this.#arm(departure.sentMs)
  }

  #arm(nowMs: number): void {
    const first = this.#onTheWay[0]
    this.#timer = first === undefined ? undefined : setTimeout(this.#due, Math.ceil(first.sentMs + this.#timeoutMs - nowMs))
  }

  readonly #due = (): void => {
    // Timers come up to a millisecond early.
    const nowMs = performance.now() + 1
    setImmediate(() => this.#judge(nowMs))
  }

  #judge(nowMs: number): void {
    for (;;) {
      const first = this.#onTheWay[0]
      if (first === undefined || first.sentMs + this.#timeoutMs > nowMs) break
      this.#onTheWay.shift()
      for (const traveller of first.travellers) if (!traveller.isDone) traveller.expire()
    }
    this.#arm(performance.now())
  }
}
