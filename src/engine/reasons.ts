/** Every reason code, with its HTTP status and the sentence that `docs/reasons.md` has for it. */
export const REASONS = {
  all_rules_passed: { status: 200, meaning: 'Allowed: no enforcing rule rejects the request.' },
  token_bucket_exceeded: { status: 429, meaning: "Rejected: this caller's bucket of a token_bucket rule is empty." },
  quota_exceeded: { status: 429, meaning: "Rejected: this caller's quota of a fixed_window rule is used up for this window." },
  tpm_exceeded: { status: 429, meaning: 'Rejected: the per-minute token budget cannot cover the reservation.' },
  tpd_exceeded: { status: 429, meaning: 'Rejected: the token budget for this UTC day cannot cover the reservation.' },
  blocked: { status: 403, meaning: 'Rejected: a block rule covers the request, or an override blocks the caller.' },
  concurrency_exceeded: {
    status: 429,
    meaning: 'Rejected: this caller has as many requests in flight as a concurrency rule allows.',
  },
  budget_exceeded: { status: 429, meaning: 'Rejected: the budget of this window cannot cover what the request may cost.' },
  unknown_caller: {
    status: 401,
    meaning: 'Refused: only verified callers may pass, and the request has no credential that could be verified.',
  },
  caller_keys_unavailable: {
    status: 401,
    meaning: 'Refused: the keys that could verify the credential are not available. In reverse_proxy the status is 503.',
  },
  caller_check_busy: {
    status: 401,
    meaning: 'Refused: too many credentials of this client address had to be checked. In reverse_proxy the status is 503.',
  },
  no_bundle_loaded: { status: 503, meaning: 'No decision: the service has no policy bundle yet.' },
  store_unavailable: { status: 503, meaning: 'No decision: Redis is unreachable, and EDGE_REDIS_FAILURE_MODE is closed.' },
  too_many_connections: { status: 503, meaning: 'No decision: the limit on open files allows no more connections.' },
  missing_original_method: { status: 400, meaning: 'Bad request: X-Original-Method or X-Forwarded-Method is missing or empty.' },
  missing_original_uri: { status: 400, meaning: 'Bad request: X-Original-URI, X-Forwarded-Uri or X-Original-URL is missing or empty.' },
  missing_original_host: {
    status: 400,
    meaning:
      'Bad request: an enforcing policy selects by host, and X-Original-Host, X-Forwarded-Host, the host in X-Original-URL or Host is missing or not a valid host name.',
  },
  repeated_original_method: { status: 400, meaning: 'Bad request: X-Original-Method or X-Forwarded-Method is repeated.' },
  repeated_original_uri: { status: 400, meaning: 'Bad request: X-Original-URI, X-Forwarded-Uri or X-Original-URL is repeated.' },
  repeated_original_host: { status: 400, meaning: 'Bad request: X-Original-Host, X-Forwarded-Host or :authority is repeated.' },
  bad_original_url: {
    status: 400,
    meaning: 'Bad request: X-Original-URL is not http:// or https://, a host and a path, or its host contains ? or #.',
  },
  repeated_descriptor: {
    status: 400,
    meaning: 'Bad request: a field that a rule reads is repeated, or it reads the model of a body that is not JSON.',
  },
  bad_request: {
    status: 400,
    meaning:
      'Bad request: it can be read in two ways, its body does not match its Content-Encoding, or it asks for a response without token counts.',
  },
  body_too_large: {
    status: 413,
    meaning: 'Bad request: the body is larger, nested deeper, or has more values or padding than a rule may read.',
  },
  upload_too_slow: {
    status: 408,
    meaning: 'Ended: the body arrived slowly while other requests waited for the memory it held (EDGE_BODY_MEMORY).',
  },
  body_memory_exhausted: {
    status: 503,
    meaning: "No decision: no memory for the body was freed in time, in total or within the caller's share (EDGE_BODY_MEMORY).",
  },
  websocket_not_counted: {
    status: 426,
    meaning:
      'Refused: a WebSocket, in which nobody would count what a rule of tokens or money limits. The rule may say `websockets: reserve`.',
  },
  no_route: { status: 404, meaning: 'Refused: no route of the bundle covers the request, and there is no EDGE_BACKEND_URL.' },
  model_not_replaceable: {
    status: 400,
    meaning:
      'Bad request: its route replaces the model, and the request names none that could be replaced, or its body is compressed or no JSON.',
  },
  backends_cooling: { status: 503, meaning: 'All backends of the route have failed, and one request at a time tries them again.' },
  backend_refused: { status: 502, meaning: 'Could not connect to the backend.' },
  backend_timeout: { status: 504, meaning: 'The backend did not accept the connection, respond or continue in time.' },
  backend_reset: { status: 502, meaning: 'The backend closed the connection before its response was complete.' },
  backend_invalid: { status: 502, meaning: 'The backend sent an invalid HTTP response.' },
  backend_busy: { status: 503, meaning: 'All connections to the backend are in use; the request was not sent.' },
  internal_error: { status: 500, meaning: 'The service failed to handle the request; the log has the cause.' },
} as const satisfies Record<string, { status: number; meaning: string }>

export type Reason = keyof typeof REASONS

/** Reasons of the service itself for which a proxy says so. To a gateway they are 401, because one that fails open would let a request with 503 pass. */
const PROXY_STATUSES: Readonly<Partial<Record<Reason, number>>> = { caller_keys_unavailable: 503, caller_check_busy: 503 }

/** Returns the status of a reason in a response to a client of the proxy. */
export function proxyStatus(reason: Reason): number {
  return PROXY_STATUSES[reason] ?? REASONS[reason].status
}
