/** Every reason code, with the sentence that `docs/reasons.md` gives for it. */
export const REASONS = {
  all_rules_passed: 'Allowed: no enforcing rule objects.',
  token_bucket_exceeded: 'Rejected: the bucket of a token_bucket rule is empty for this caller.',
  tpm_exceeded: 'Rejected: the per-minute token budget cannot cover the reservation.',
  tpd_exceeded: 'Rejected: the token budget of this UTC day cannot cover the reservation.',
  no_bundle_loaded: 'No decision: the service has no policy bundle yet.',
  missing_original_method: 'Bad request: X-Original-Method is missing or empty.',
  missing_original_uri: 'Bad request: X-Original-URI is missing or empty.',
  missing_original_host:
    'Bad request: an enforcing policy is bound to hosts and X-Original-Host (in reverse_proxy: Host) is missing or empty.',
  repeated_original_method: 'Bad request: X-Original-Method comes more than once.',
  repeated_original_uri: 'Bad request: X-Original-URI comes more than once.',
  repeated_original_host: 'Bad request: X-Original-Host comes more than once.',
  bad_request: 'Bad request: two readers could disagree about what it says, or its body is not what Content-Encoding says.',
  body_too_large: 'Bad request: the body is larger than EDGE_MAX_BODY_BYTES, and a token budget must read it.',
  backend_refused: 'The backend did not accept the connection.',
  backend_timeout: 'The backend did not connect, answer or go on in time.',
  backend_reset: 'The backend broke the connection before its answer was whole.',
  backend_invalid: 'The backend sent something that is no valid HTTP answer.',
  internal_error: 'The service failed to answer; the log has the cause.',
} as const

export type Reason = keyof typeof REASONS
