import type { Logger } from 'pino'
import { ApiError } from '../../admin/api/api-error.ts'
import { EventStreams } from '../../admin/api/events-endpoint.ts'
import { EventOutbox } from '../../telemetry/events/event-outbox.ts'
import type { EventTap, PublishedEvent } from '../../telemetry/events/published-events.ts'
import { CounterFamily } from '../../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import type { ControlLink } from '../control-link.ts'
import { PROBLEM_EVENTS } from '../problems.ts'
import type { FromWorker } from '../thread-messages.ts'
import { EventWatch } from './event-hub.ts'

export interface WorkerEventsParts {
  readonly worker: number
  /** Says whether anybody watches. */
  readonly eventWatch: SharedArrayBuffer
  /** What this worker logs; undefined where the main thread hears that itself. */
  readonly tap?: EventTap | undefined
  readonly control: ControlLink
  readonly send: (message: FromWorker) => void
  readonly metricMemory: MetricMemory
  readonly logger: Logger
  readonly wallMs: () => number
}

/** A worker's part in events: what happens here goes to the main thread, and what happens anywhere to those who watch here. */
export class WorkerEvents {
  readonly streams: EventStreams
  readonly #outbox: EventOutbox
  readonly #send: (message: FromWorker) => void

  constructor({ worker, eventWatch, tap, control, send, metricMemory, logger, wallMs }: WorkerEventsParts) {
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
    tap?.listen((event) => {
      const isProblem = PROBLEM_EVENTS.has(event.name)
      if (isProblem || watch.isOn) this.#outbox.add(event, isProblem)
    })
    const giveBack = (): void => void control.ask('close_events', { worker }).catch(() => {}) // the main thread is slow, and gets it later
    this.streams = new EventStreams({
      claim: () =>
        control.ask('open_events', { worker }).catch((error: unknown) => {
          if (!(error instanceof ApiError && error.code === 'too_many_readers')) giveBack()
          throw error
        }),
      giveBack,
      dropped: dropped.series('stream'),
      onError: (error) => logger.error({ event: 'internal_error', err: error }, 'events could not be sent to those who watch them'),
      wallMs,
    })
  }

  /** From anywhere, for those who watch here. */
  deliver(events: readonly PublishedEvent[]): void {
    this.streams.deliver(events, () => this.#send({ type: 'events_taken' }))
  }

  noteTaken(): void {
    this.#outbox.noteTaken()
  }

  /** Sends what has not been sent yet. */
  flush(): void {
    this.#outbox.flush()
  }
}
