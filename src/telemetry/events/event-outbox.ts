import { droppedEvent, type PublishedEvent } from './published-events.ts'

/** Delay between two batches, and before the first one. */
const BATCH_MS = 50
const MAX_EVENTS = 1000
const MAX_CHARACTERS = 128 * 1024

export interface OutboxParts {
  readonly send: (events: readonly PublishedEvent[]) => void
  readonly onDropped: (count: number) => void
  readonly wallMs: () => number
}

/**
 * Sends events to another thread in batches of bounded size, one at a time. Events that do not fit into the next batch are dropped, and an
 * event in their place says how many. A thread that is slow or stuck therefore costs the others no memory.
 */
export class EventOutbox {
  readonly #parts: OutboxParts
  #waiting: PublishedEvent[] = []
  #characters = 0
  #dropped = 0
  #isUnderWay = false
  #timer: NodeJS.Timeout | undefined

  constructor(parts: OutboxParts) {
    this.#parts = parts
  }

  /** Urgent events may fill the batch to twice the normal bounds. */
  add(event: PublishedEvent, isUrgent = false): void {
    const share = isUrgent ? 2 : 1
    if (this.#waiting.length >= share * MAX_EVENTS || this.#characters + event.line.length > share * MAX_CHARACTERS) {
      this.#dropped++
      return this.#parts.onDropped(1)
    }
    this.#waiting.push(event)
    this.#characters += event.line.length
    this.#schedule()
  }

  /** Must be called when the other thread has processed the last batch. */
  noteTaken(): void {
    this.#isUnderWay = false
    if (this.#waiting.length > 0) this.#schedule()
  }

  /** Sends the waiting events now, even if another batch is being processed. */
  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#waiting.length === 0) return
    const events = this.#waiting
    if (this.#dropped > 0) events.push(droppedEvent(this.#dropped, this.#parts.wallMs()))
    this.#waiting = []
    this.#characters = 0
    this.#dropped = 0
    this.#isUnderWay = true
    this.#parts.send(events)
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (this.#isUnderWay || this.#timer !== undefined) return
    this.#timer = setTimeout(() => this.flush(), BATCH_MS).unref()
  }
}
