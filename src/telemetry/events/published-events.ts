import { type DestinationStream, pino } from 'pino'

/** An event that operators can watch: its name, and its log line, a JSON object. */
export interface PublishedEvent {
  readonly name: string
  readonly line: string
  /** Position among all events of the instance. The main thread assigns it, except to events that say that others were dropped. */
  readonly number?: number
  /** True if its thread sends no more events of this name for a moment, because nobody watches and there are many. */
  readonly isLastForNow?: boolean
}

/**
 * Log events that operators can watch, as listed in `docs/operations/events.md`. None contains a caller's values, except that `backend_cooling` and
 * `backend_recovered` name the model that a provider refused.
 */
export const PUBLISHED_EVENTS: ReadonlySet<string> = new Set([
  'reject',
  'would_reject',
  'would_refuse',
  'budget_warning',
  'truncated',
  'would_truncate',
  'streams_cut',
  'block_expired',
  'override_set',
  'override_edited',
  'override_ended',
  'overrides_loaded',
  'overrides_unreadable',
  'counter_reset',
  'backend_retried',
  'key_created',
  'key_changed',
  'key_revoked',
  'keys_not_written',
  'keys_not_shared',
  'keys_shared',
  'keys_unreadable',
  'keys_tail_dropped',
  'keys_tail_acknowledged',
  'key_requests_ended',
  'bundle_announced',
  'bundle_applied',
  'bundle_warnings',
  'bundle_refused',
  'bundle_unchanged',
  'bundle_unreadable',
  'credentials_open',
  'bundle_not_cached',
  'bundle_cached_again',
  'bundle_text_read',
  'ip_file_loaded',
  'ip_file_refused',
  'key_set_loaded',
  'key_set_failed',
  'key_set_dropped',
  'secret_loaded',
  'secret_failed',
  'secret_dropped',
  'tls_loaded',
  'tls_reloaded',
  'tls_failed',
  'redis_unavailable',
  'redis_available',
  'control_not_shared',
  'control_shared',
  'logouts_not_shared',
  'logouts_shared',
  'backend_failed',
  'backend_cooling',
  'backend_recovered',
  'settlement_failed',
  'hold_not_renewed',
  'hold_not_released',
  'reservation_not_issued',
  'accept_failed',
  'counters_evicted',
  'no_address',
  'worker_died',
  'worker_replaced',
  'worker_unfit',
  'worker_stuck',
  'worker_cannot_listen',
  'worker_not_replaced',
  'state_new',
  'state_loaded',
  'reservations_given_back',
  'state_set_aside',
  'state_evicted',
  'state_not_saved',
  'state_saved_again',
  'decision_log_not_written',
  'decision_log_written_again',
  'decision_log_dropped',
  'usage_not_written',
  'usage_written_again',
  'usage_lines_lost',
  'usage_upkeep_failed',
  'usage_upkeep_resumed',
  'admin_session_opened',
  'admin_refused',
  'admin_failed',
  'internal_error',
  'events_not_posted',
  'events_posted_again',
  'traces_not_sent',
  'traces_sent_again',
  'unknown_variable',
  'started',
  'stopping',
  'stopped',
])

/** The only event that is not in the log. It stands where others are missing. */
export const EVENTS_DROPPED = 'events_dropped'

export function droppedEvent(dropped: number, wallMs: number): PublishedEvent {
  const fields = { level: 'warn', time: new Date(wallMs).toISOString(), event: EVENTS_DROPPED, dropped, msg: 'events were dropped here' }
  return { name: EVENTS_DROPPED, line: JSON.stringify(fields) }
}

type OnEvent = (event: PublishedEvent) => void

/** Maximum number of events kept from before anybody listens. */
const MAX_EARLY = 100
/** Minimum level of events, which are logged as `info` or above. */
const EVENT_LEVEL = 'info'
const MAX_LINE_CHARACTERS = 16 * 1024
/** If a line is too long, only fields up to this size are published. */
const MAX_FIELD_CHARACTERS = 1024

/**
 * A destination for log lines that writes those to the log that its level admits, and passes events on whatever that level is. pino sets
 * `lastLevel` and `lastObj` before each line.
 */
export class EventTap implements DestinationStream {
  readonly [pino.symbols.needsMetadataGsym] = true
  lastLevel = 0
  lastObj: { readonly event?: unknown; readonly err?: unknown } = {}
  /** Level of the logger that writes here. */
  readonly level: string
  readonly #log: DestinationStream
  readonly #logLevel: number
  #early: PublishedEvent[] = []
  #onEvent: OnEvent | undefined

  constructor(log: DestinationStream, logLevel: string) {
    this.#log = log
    this.#logLevel = numberOf(logLevel)
    this.level = this.#logLevel < numberOf(EVENT_LEVEL) ? logLevel : EVENT_LEVEL
  }

  /** Must be called only once. */
  listen(onEvent: OnEvent): void {
    this.#onEvent = onEvent
    for (const event of this.#early) onEvent(event)
    this.#early = []
  }

  write(line: string): void {
    const { event: name, err } = this.lastObj
    if (this.lastLevel >= this.#logLevel) this.#log.write(line)
    if (typeof name !== 'string' || !PUBLISHED_EVENTS.has(name)) return
    const event = { name, line: publishedLine(line, err !== undefined) }
    if (this.#onEvent !== undefined) this.#onEvent(event)
    else if (this.#early.length < MAX_EARLY) this.#early.push(event)
  }
}

function numberOf(level: string): number {
  return pino.levels.values[level] ?? Number.POSITIVE_INFINITY // silent
}

/** Leaves out errors, because their messages might quote anything. */
function publishedLine(line: string, hasError: boolean): string {
  if (!hasError && line.length <= MAX_LINE_CHARACTERS) return line.trimEnd()
  const { err: _, ...fields } = JSON.parse(line) as Record<string, unknown>
  const entries = Object.entries(fields)
  const short = entries.filter(([, value]) => JSON.stringify(value).length <= MAX_FIELD_CHARACTERS)
  if (line.length <= MAX_LINE_CHARACTERS || short.length === entries.length) return JSON.stringify(fields)
  const leftOut = entries.filter((entry) => !short.includes(entry)).map(([name]) => name)
  return JSON.stringify({ ...Object.fromEntries(short), left_out: leftOut })
}
