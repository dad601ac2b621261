/** An event that operators can watch: its name, and its line of the log, an object as JSON. */
export interface PublishedEvent {
  readonly name: string
  readonly line: string
}

/** The events of the log that operators can watch, as `docs/operations/events.md` lists them. None has a caller's values. */
export const PUBLISHED_EVENTS: ReadonlySet<string> = new Set([
  'reject',
  'would_reject',
  'budget_warning',
  'truncated',
  'would_truncate',
  'streams_cut',
  'block_expired',
  'override_set',
  'override_ended',
  'overrides_loaded',
  'overrides_unreadable',
  'counter_reset',
  'bundle_applied',
  'bundle_warnings',
  'bundle_refused',
  'bundle_unchanged',
  'bundle_unreadable',
  'bundle_not_cached',
  'bundle_cached_again',
  'ip_file_loaded',
  'ip_file_refused',
  'redis_unavailable',
  'redis_available',
  'desk_not_shared',
  'desk_shared',
  'logouts_not_shared',
  'logouts_shared',
  'backend_failed',
  'settlement_failed',
  'hold_not_renewed',
  'hold_not_released',
  'reservation_not_issued',
  'accept_failed',
  'counters_evicted',
  'worker_died',
  'worker_replaced',
  'worker_unfit',
  'worker_stuck',
  'worker_cannot_listen',
  'worker_not_replaced',
  'state_new',
  'state_loaded',
  'state_set_aside',
  'state_evicted',
  'state_not_saved',
  'state_saved_again',
  'decision_log_not_written',
  'decision_log_written_again',
  'decision_log_dropped',
  'admin_session_opened',
  'admin_refused',
  'admin_failed',
  'internal_error',
  'events_not_posted',
  'events_posted_again',
  'traces_not_sent',
  'traces_sent_again',
  'started',
  'stopping',
  'stopped',
])

/** The one event that is not in the log: it stands where others are missing. */
export const EVENTS_DROPPED = 'events_dropped'

export function droppedEvent(dropped: number, wallMs: number): PublishedEvent {
  const fields = { level: 'warn', time: new Date(wallMs).toISOString(), event: EVENTS_DROPPED, dropped, msg: 'events were dropped here' }
  return { name: EVENTS_DROPPED, line: JSON.stringify(fields) }
}
