import type { LoggedRequest } from '../logs/logged-request.ts'
import { type Timed, TimeHeap } from './time-heap.ts'

/** Requests before this place in the queue are gone; from here on the queue is cut. */
const CUT_AT = 4096

interface Late extends Timed {
  readonly request: LoggedRequest
}

/** The newest requests of a log, in the order of their times, and of their places where times are equal. Logs are nearly sorted: only those that come late cost more than a place in a queue. */
export class ReorderWindow {
  /** Of their texts in the log. */
  size = 0
  #queue: LoggedRequest[] = []
  #first = 0
  #latestMs = Number.NEGATIVE_INFINITY
  readonly #late = new TimeHeap<Late>()
  #lateCount = 0

  get length(): number {
    return this.#queue.length - this.#first + this.#late.length
  }

  get earliest(): LoggedRequest | undefined {
    const queued = this.#queue[this.#first]
    const late = this.#late.root
    return late !== undefined && (queued === undefined || late.timeMs < queued.timeMs) ? late.request : queued
  }

  add(request: LoggedRequest): void {
    this.size += request.size
    const { timeMs } = request
    if (timeMs < this.#latestMs) return this.#late.push({ timeMs, order: this.#lateCount++, request })
    this.#latestMs = timeMs
    this.#queue.push(request)
  }

  removeEarliest(): void {
    const request = this.earliest!
    this.size -= request.size
    if (request === this.#late.root?.request) return this.#late.removeRoot()
    this.#first++
    if (this.#first < CUT_AT || this.#first * 2 < this.#queue.length) return
    this.#queue = this.#queue.slice(this.#first)
    this.#first = 0
  }
}
