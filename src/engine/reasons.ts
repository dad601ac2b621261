/** Every reason code, with its HTTP status and the sentence that `docs/reasons.md` gives for it. */
export const REASONS = {
  all_rules_passed: { status: 200, meaning: 'Allowed: no enforcing rule objects.' },
  token_bucket_exceeded: { status: 429, meaning: 'Rejected: the bucket of a token_bucket rule is empty for this caller.' },
  tpm_exceeded: { status: 429, meaning: 'Rejected: the per-minute token budget cannot cover the reservation.' },
  tpd_exceeded: { status: 429, meaning: 'Rejected: the token budget of this UTC day cannot cover the reservation.' },
  no_bundle_loaded: { status: 503, meaning: 'No decision: the service has no policy bundle yet.' },
  store_unavailable: { status: 503, meaning: 'No decision: Redis is away, and EDGE_REDIS_FAILURE_MODE is closed.' },
  too_many_connections: { status: 503, meaning: 'No decision: the limit of open files allows no more connections.' },
  missing_original_method: { status: 400, meaning: 'Bad request: X-Original-Method is missing or empty.' },
  missing_original_uri: { status: 400, meaning: 'Bad request: X-Original-URI is missing or empty.' },
  missing_original_host: {
    status: 400,
    meaning: 'Bad request: an enforcing policy is bound to hosts and X-Original-Host (in reverse_proxy: Host) is missing or empty.',
  },
  repeated_original_method: { status: 400, meaning: 'Bad request: X-Original-Method comes more than once.' },
  repeated_original_uri: { status: 400, meaning: 'Bad request: X-Original-URI comes more than once.' },
  repeated_original_host: { status: 400, meaning: 'Bad request: X-Original-Host comes more than once.' },
  repeated_descriptor: { status: 400, meaning: 'Bad request: a field that a limit is keyed by comes more than once.' },
  bad_request: {
    status: 400,
    meaning: 'Bad request: two readers could disagree about what it says, or its body is not what Content-Encoding says.',
  },
  body_too_large: {
    status: 413,
    meaning: 'Bad request: the body is larger, nested deeper or of more values than a token budget may read.',
  },
  upload_too_slow: {
    status: 408,
    meaning: 'Ended: the body came slowly while other requests waited for the memory that it held (EDGE_BODY_MEMORY).',
  },
  body_memory_exhausted: {
    status: 503,
    meaning: 'No decision: no memory for the body became free in time (EDGE_BODY_MEMORY).',
  },
  backend_refused: { status: 502, meaning: 'No connection to the backend could be made.' },
  backend_timeout: { status: 504, meaning: 'The backend did not connect, answer or go on in time.' },
  backend_reset: { status: 502, meaning: 'The backend broke the connection before its answer was whole.' },
  backend_invalid: { status: 502, meaning: 'The backend sent something that is no valid HTTP answer.' },
  backend_busy: { status: 503, meaning: 'All connections to the backend stayed in use; the request was not sent.' },
  internal_error: { status: 500, meaning: 'The service failed to answer; the log has the cause.' },
} as const satisfies Record<string, { status: number; meaning: string }>

export type Reason = keyof typeof REASONS
