import type { Logger } from 'pino'
import { ApiError } from '../../admin/api/api-error.ts'
import { hasEvents, type ServerConfig } from '../../config/config.ts'
import { descriptorLimit } from '../../files/descriptor-limit.ts'
import { VERSION } from '../../files/package-files.ts'
import { connectionLimits } from '../../listen/connection-slots.ts'
import { EventOutbox } from '../../telemetry/events/event-outbox.ts'
import type { PublishedEvent } from '../../telemetry/events/published-events.ts'
import { CounterFamily } from '../../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import type { Clock } from '../../time/clock.ts'
import type { ControlHandlers } from '../control-calls.ts'
import { type LogEvent, PROBLEM_EVENTS, type Problems } from '../problems.ts'
import type { ToWorker } from '../thread-messages.ts'
import { BUNDLE_CHANGES, ChangeLog } from './change-log.ts'
import { RecentEvents } from './recent-events.ts'
import type { Webhook } from './webhook.ts'

export interface EventHubParts {
  /** Shows all threads whether anybody watches events. */
  readonly eventWatch: SharedArrayBuffer
  readonly problems: Problems
  /** Bound on the readers of all workers together. */
  readonly maxReaders: number
  readonly metrics: MetricMemory
  readonly wallMs: () => number
  readonly send: (worker: number, message: ToWorker) => void
  /** Undefined if EDGE_EVENTS_URL is not set. */
  readonly webhook: Webhook | undefined
  /** Undefined without an admin token: then nobody can ask for it. */
  readonly history: EventHistory | undefined
}

/** What operators can see later of what has happened. */
export interface EventHistory {
  readonly recent: RecentEvents
  readonly changes: ChangeLog
}

/** Time at shutdown for posting the remaining events. */
const LAST_POST_MS = 1000

/** A worker at which somebody reads events. */
interface ReadingWorker {
  readonly outbox: EventOutbox
  readers: number
}

/** Collects the events of all threads on the main thread, and passes them on to everybody who watches. */
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

  get history(): EventHistory | undefined {
    return this.#parts.history
  }

  publish(published: PublishedEvent): void {
    const { problems, wallMs, webhook, history } = this.#parts
    const { name, line } = published
    if (PROBLEM_EVENTS.has(name)) problems.note(JSON.parse(line) as LogEvent, wallMs())
    if (BUNDLE_CHANGES.has(name)) history?.changes.noteBundle(JSON.parse(line) as LogEvent, wallMs())
    const event = history === undefined ? published : history.recent.add(published, wallMs())
    webhook?.offer(event)
    for (const { outbox } of this.#reading.values()) outbox.add(event)
  }

  publishFrom(worker: number, events: readonly PublishedEvent[]): void {
    for (const event of events) this.publish(event)
    this.#parts.send(worker, { type: 'events_taken' })
  }

  /** Adds a reader at this worker. */
  openStream(worker: number): undefined {
    const { maxReaders } = this.#parts
    const readers = [...this.#reading.values()].reduce((sum, reading) => sum + reading.readers, 0)
    if (readers >= maxReaders) throw new ApiError('too_many_readers', `${maxReaders} connections already read events, which is the maximum`)
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

  /** Removes all readers at this worker, which may have ended. */
  leave(worker: number): void {
    this.#reading.get(worker)?.outbox.close()
    this.#reading.delete(worker)
    this.#noteWatchers()
  }

  /** Sends all events that have not been sent yet. */
  flush(): void {
    for (const { outbox } of this.#reading.values()) outbox.flush()
  }

  /** The longest that closing takes. */
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

/** Whether anybody watches events, in memory that all threads share. If nobody does, workers send only as many as are worth keeping. */
export class EventWatch {
  readonly #word: Int32Array

  constructor(memory: SharedArrayBuffer) {
    this.#word = new Int32Array(memory)
  }

  get isOn(): boolean {
    return Atomics.load(this.#word, 0) === 1
  }

  set isOn(isOn: boolean) {
    Atomics.store(this.#word, 0, isOn ? 1 : 0)
  }
}

interface OpenParts {
  readonly eventWatch: SharedArrayBuffer
  readonly problems: Problems
  readonly metrics: MetricMemory
  readonly logger: Logger
  readonly clock: Clock
  readonly send: (worker: number, message: ToWorker) => void
}

/** Bound on the readers of all workers together. */
const MAX_READERS = 128

/** Opens the hub; returns undefined if nobody can watch events. */
export async function openEventHub(config: ServerConfig, parts: OpenParts): Promise<EventHub | undefined> {
  if (!hasEvents(config)) return undefined
  const webhook = await openWebhook(config, parts)
  const wallMs = (): number => parts.clock.wallMs()
  const history = config.adminToken && { recent: new RecentEvents(wallMs()), changes: new ChangeLog(wallMs()) }
  return new EventHub({ ...parts, wallMs, maxReaders: maxReaders(config), webhook, history: history || undefined })
}

async function openWebhook(config: ServerConfig, { metrics, logger, clock }: OpenParts): Promise<Webhook | undefined> {
  const { eventsUrl: url, eventsSecret: key, eventsFormat: format } = config
  if (url === undefined) return undefined
  const { Webhook } = await import('./webhook.ts')
  const dropped = new CounterFamily(metrics, 'edge_events_dropped_total').series('webhook')
  return new Webhook({ url, key, format, logger, dropped, wallMs: () => clock.wallMs(), userAgent: `edge/${VERSION}` })
}

type EventCalls =
  | 'open_events'
  | 'close_events'
  | 'events_page'
  | 'recent_events'
  | 'changes'
  | 'note_reset'
  | 'note_retry'
  | 'note_text_read'
  | 'announce_bundle'

/** Answers what workers ask the main thread about events and changes. `flushWorkers` resolves when they have sent what they had not sent yet. */
export function eventCalls(
  hub: EventHub | undefined,
  clock: Clock,
  flushWorkers: () => Promise<unknown>,
): Pick<ControlHandlers, EventCalls> {
  return {
    open_events: ({ worker }) => hub!.openStream(worker),
    close_events: ({ worker }) => hub!.closeStream(worker),
    events_page: async (ask) => {
      if (ask.after === undefined) await flushWorkers()
      return hub!.history!.recent.page(ask, clock.wallMs())
    },
    recent_events: async ({ limit, ...ask }) => {
      await flushWorkers()
      return hub!.history!.recent.list(ask, limit, clock.wallMs())
    },
    changes: ({ sinceMs, limit }) => hub!.history!.changes.list(sinceMs, limit),
    note_reset: (reset) => void hub!.history!.changes.noteReset(reset, clock.wallMs()),
    note_retry: (retry) => void hub!.history!.changes.noteRetry(retry, clock.wallMs()),
    note_text_read: (read) => void hub!.history!.changes.noteTextRead(read, clock.wallMs()),
    announce_bundle: (announced) => void hub!.history!.changes.announce(announced, clock.wallMs()),
  }
}

/** Each reader occupies a connection, so half of the admin connections are left for other uses. */
function maxReaders(config: ServerConfig): number {
  return Math.min(MAX_READERS, Math.floor(connectionLimits(descriptorLimit(), config).admin / 2))
}
