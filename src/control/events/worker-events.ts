import type { Logger } from 'pino'
import { ApiError } from '../../admin/api/api-error.ts'
import { EventStreams } from '../../admin/endpoints/event-streams.ts'
import { EventOutbox } from '../../telemetry/events/event-outbox.ts'
import type { EventTap, PublishedEvent } from '../../telemetry/events/published-events.ts'
import { CounterFamily } from '../../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import type { Clock } from '../../time/clock.ts'
import type { ControlLink } from '../control-link.ts'
import { PROBLEM_EVENTS } from '../problems.ts'
import type { FromWorker } from '../thread-messages.ts'
import { EventWatch } from './event-hub.ts'

export interface WorkerEventsParts {
  readonly worker: number
  /** Shows whether anybody watches events. */
  readonly eventWatch: SharedArrayBuffer
  /** Taps this worker's log; undefined if the main thread hears that itself. */
  readonly tap?: EventTap | undefined
  readonly control: ControlLink
  readonly send: (message: FromWorker) => void
  readonly metricMemory: MetricMemory
  readonly logger: Logger
  readonly clock: Clock
}

/** A worker's part in events: its own events go to the main thread, and events from anywhere go to those who watch here. */
export class WorkerEvents {
  readonly streams: EventStreams
  readonly #outbox: EventOutbox
  readonly #send: (message: FromWorker) => void

  constructor({ worker, eventWatch, tap, control, send, metricMemory, logger, clock }: WorkerEventsParts) {
    const wallMs = (): number => clock.wallMs()
    const dropped = new CounterFamily(metricMemory, 'edge_events_dropped_total')
    const toHub = dropped.series('hub')
    const watch = new EventWatch(eventWatch)
    this.#send = send
    this.#outbox = new EventOutbox({
      send: (events) => send({ type: 'events', events }),
      onDropped: (count) => {
        toHub.count += count
      },
      wallMs,
    })
    const unwatched = new UnwatchedEvents()
    tap?.listen((event) => {
      const isProblem = PROBLEM_EVENTS.has(event.name)
      const sent = isProblem || watch.isOn ? event : unwatched.admitted(event, clock.nowMs())
      if (sent !== undefined) this.#outbox.add(sent, isProblem)
    })
    const giveBack = (): void => void control.ask('close_events', { worker }).catch(() => {}) // a slow main thread handles it later
    this.streams = new EventStreams({
      claim: () =>
        control.ask('open_events', { worker }).catch((error: unknown) => {
          if (!(error instanceof ApiError && error.code === 'too_many_readers')) giveBack()
          throw error
        }),
      giveBack,
      page: (ask) => control.ask('events_page', ask),
      dropped: dropped.series('stream'),
      onError: (error) => logger.error({ event: 'internal_error', err: error }, 'events could not be sent to readers of the event stream'),
      wallMs,
    })
  }

  /** Delivers events from anywhere to those who watch at this worker. */
  deliver(events: readonly PublishedEvent[]): void {
    this.streams.deliver(events, () => this.#send({ type: 'events_taken' }))
  }

  noteTaken(): void {
    this.#outbox.noteTaken()
  }

  /** Sends all events that have not been sent yet. */
  flush(): void {
    this.#outbox.flush()
  }
}

/** Enough to see what happens. What nobody watches must not cost a thread anything worth measuring. */
const PER_SECOND = 20
const SECOND_MS = 1000

/** Bounds what a worker sends while nobody watches: the main thread keeps it for operators who look later. */
class UnwatchedEvents {
  readonly #seconds = new Map<string, { readonly endMs: number; left: number }>()

  /** Returns undefined for an event of a name that has had its share of this second. There are some sixty names. */
  admitted(event: PublishedEvent, nowMs: number): PublishedEvent | undefined {
    let second = this.#seconds.get(event.name)
    if (second === undefined || nowMs >= second.endMs) {
      second = { endMs: nowMs + SECOND_MS, left: PER_SECOND }
      this.#seconds.set(event.name, second)
    }
    if (second.left === 0) return undefined
    second.left--
    return second.left === 0 ? { ...event, isLastForNow: true } : event
  }
}
