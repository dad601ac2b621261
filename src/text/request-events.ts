/**
 * Names of the events about requests, of which there may be very many. The page and `edge events` count them together, so that what else happened is not
 * hidden among them.
 */
export const REQUEST_EVENTS: ReadonlySet<string> = new Set([
  'reject',
  'would_reject',
  'budget_warning',
  'truncated',
  'would_truncate',
  'backend_failed',
])
