import { ApiError } from '../../admin/api/api-error.ts'
import { EventOutbox } from '../../telemetry/events/event-outbox.ts'
import type { PublishedEvent } from '../../telemetry/events/published-events.ts'
import { CounterFamily } from '../../telemetry/metrics/counter-family.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import { type LogEvent, PROBLEM_EVENTS, type Problems } from '../control/problems.ts'
import type { ToWorker } from '../threads/messages.ts'
import { EventWatch } from './event-watch.ts'
import type { Webhook } from './webhook.ts'

export interface EventHubParts {
  /** Tells all threads whether anybody watches. */
  readonly eventWatch: SharedArrayBuffer
  readonly problems: Problems
  /** Of all workers together. */
  readonly maxReaders: number
  readonly metrics: MetricMemory
  readonly wallMs: () => number
  readonly send: (worker: number, message: ToWorker) => void
  /** Undefined where EDGE_EVENTS_URL is not set. */
  readonly webhook: Webhook | undefined
}

/** At shutdown, for events that still have to be posted. */
const LAST_POST_MS = 1000

/** A worker with readers. */
interface ReadingWorker {
  readonly outbox: EventOutbox
  readers: number
}

/** Where the events of all threads come together: in the main thread, which passes them on to all who watch. */
export class EventHub {
  readonly #parts: EventHubParts
  readonly #watch: EventWatch
  readonly #reading = new Map<number, ReadingWorker>()
  readonly #dropped: CounterFamily

  constructor(parts: EventHubParts) {
    this.#parts = parts
    this.#watch = new EventWatch(parts.eventWatch)
    this.#dropped = new CounterFamily(parts.metrics, 'edge_events_dropped_total')
    for (const to of ['stream', 'webhook', 'hub']) this.#dropped.series(to)
    this.#noteWatchers()
  }

  publish(event: PublishedEvent): void {
    const { problems, wallMs, webhook } = this.#parts
    if (PROBLEM_EVENTS.has(event.name)) problems.note(JSON.parse(event.line) as LogEvent, wallMs())
    webhook?.offer(event)
    for (const { outbox } of this.#reading.values()) outbox.add(event)
  }

  publishFrom(worker: number, events: readonly PublishedEvent[]): void {
    for (const event of events) this.publish(event)
    this.#parts.send(worker, { type: 'events_taken' })
  }

  /** One more watches at this worker. */
  openStream(worker: number): undefined {
    const { maxReaders } = this.#parts
    const readers = [...this.#reading.values()].reduce((sum, reading) => sum + reading.readers, 0)
    if (readers >= maxReaders)
      throw new ApiError('too_many_readers', `${maxReaders} connections read events already, and more are not served`)
    const reading = this.#reading.get(worker)
    if (reading === undefined) this.#reading.set(worker, { outbox: this.#newOutbox(worker), readers: 1 })
    else reading.readers++
    this.#noteWatchers()
  }

  closeStream(worker: number): undefined {
    const reading = this.#reading.get(worker)
    if (reading !== undefined && --reading.readers === 0) this.leave(worker)
  }

  noteTaken(worker: number): void {
    this.#reading.get(worker)?.outbox.noteTaken()
  }

  /** Nobody watches at this worker any more: it may be gone. */
  leave(worker: number): void {
    this.#reading.get(worker)?.outbox.close()
    this.#reading.delete(worker)
    this.#noteWatchers()
  }

  /** Sends what has not been sent yet. */
  flush(): void {
    for (const { outbox } of this.#reading.values()) outbox.flush()
  }

  /** How long closing takes, at most. */
  get closeMs(): number {
    return this.#parts.webhook === undefined ? 0 : LAST_POST_MS
  }

  async close(): Promise<void> {
    await this.#parts.webhook?.close(LAST_POST_MS)
  }

  #newOutbox(worker: number): EventOutbox {
    const { send, wallMs } = this.#parts
    const dropped = this.#dropped.series('stream')
    return new EventOutbox({
      send: (events) => send(worker, { type: 'events', events }),
      onDropped: (count) => {
        dropped.count += count
      },
      wallMs,
    })
  }

  #noteWatchers(): void {
    this.#watch.isOn = this.#parts.webhook !== undefined || this.#reading.size > 0
  }
}
