import { PROXY_METRICS } from './proxy-catalogue.ts'

/** All metrics, as listed in `docs/metrics.md`. */
export const CATALOGUE = {
  edge_decisions_total: {
    type: 'counter',
    labels: ['action', 'reason', 'policy', 'route'],
    help: 'Decisions by action and reason; policy and route are those of the policy that decided.',
  },
  edge_policy_requests_total: {
    type: 'counter',
    labels: ['policy'],
    help: 'Requests that a policy covered; a request that several policies cover counts for each.',
  },
  edge_rejects_total: {
    type: 'counter',
    labels: ['policy', 'rule', 'reason'],
    help: 'Rejected requests by the rule that rejected.',
  },
  edge_questions_total: {
    type: 'counter',
    labels: ['door', 'outcome'],
    help: 'Decision requests by door (the interface that they came through) and outcome: allow, reject, or refuse (not decided).',
  },
  edge_rate_limit_ignored_limits_total: {
    type: 'counter',
    labels: [],
    help: 'Limits that callers of the rate limit service sent; they are ignored, because limits come from the bundle.',
  },
  edge_descriptor_missing_total: {
    type: 'counter',
    labels: ['key'],
    help: 'Descriptors that a rule needed and the request did not have; the rule was skipped.',
  },
  edge_would_reject_total: {
    type: 'counter',
    labels: ['policy', 'rule', 'reason'],
    help: 'Requests that a policy in shadow mode would have rejected.',
  },
  edge_refused_requests_total: {
    type: 'counter',
    labels: ['reason'],
    help: 'Requests that could not be decided, by X-Edge-Reason.',
  },
  edge_would_refuse_total: {
    type: 'counter',
    labels: ['reason'],
    help: 'Requests that callers in shadow mode would have refused, by X-Edge-Reason.',
  },
  edge_callers_total: {
    type: 'counter',
    labels: ['outcome'],
    help: 'Requests whose caller was looked for, by outcome: verified, or why the caller is not known.',
  },
  edge_decision_duration_seconds: {
    type: 'histogram',
    labels: [],
    bounds: [2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1],
    help: 'Time from the parsed request to the decision.',
  },
  edge_bundle_info: { type: 'gauge', labels: ['version', 'hash'], help: 'The active policy bundle; always 1.' },
  edge_bundle_last_update_timestamp_seconds: { type: 'gauge', labels: [], help: 'When the active bundle was applied, in unix seconds.' },
  edge_bundle_reloads_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Bundles checked: applied, refused, unchanged, or unreadable.',
  },
  edge_bundle_last_good_poll_timestamp_seconds: {
    type: 'gauge',
    labels: [],
    help: 'When EDGE_CONFIG_URL last delivered or confirmed the active bundle, in unix seconds.',
  },
  edge_bundle_cache_writes_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Attempts to write EDGE_CONFIG_CACHE_FILE: written or failed.',
  },
  edge_key_set_fetches_total: {
    type: 'counter',
    labels: ['issuer', 'outcome'],
    help: "Readings of an issuer's key set, from its URL or file: good or failed. The issuer is the name of its entry in callers.jwt.",
  },
  edge_key_set_keys: { type: 'gauge', labels: ['issuer'], help: "Usable keys in an issuer's key set; 0 if there is none." },
  edge_key_set_failing: {
    type: 'gauge',
    labels: ['issuer'],
    help: "1 while an issuer's key set cannot be read; the last good one stays in use. 0 is good.",
  },
  edge_key_set_last_good_timestamp_seconds: {
    type: 'gauge',
    labels: ['issuer'],
    help: "When an issuer's key set was last read without a problem, in unix seconds; 0 once the bundle no longer names the issuer.",
  },
  edge_secret_failing: {
    type: 'gauge',
    labels: ['secret'],
    help: '1 while a secret that the active bundle names cannot be read; its last good value stays in use. 0 is good.',
  },
  edge_secret_loaded_timestamp_seconds: {
    type: 'gauge',
    labels: ['secret'],
    help: 'When the value of a secret that is in use was read, in unix seconds; 0 once the bundle no longer names the secret.',
  },
  edge_tls_certificate_expiry_seconds: {
    type: 'gauge',
    labels: ['file'],
    help: 'When the certificate in use from a file of EDGE_TLS_CERT_FILE expires, in unix seconds.',
  },
  edge_tls_file_failing: {
    type: 'gauge',
    labels: ['file'],
    help: '1 while a certificate with its key, or the file of client authorities, cannot be read or used; the last good one stays in use. 0 is good.',
  },
  edge_tls_handshake_failures_total: {
    type: 'counter',
    labels: ['listener', 'reason'],
    help: 'TLS handshakes that failed, by listener and reason; the connections were closed.',
  },
  edge_store_slots: { type: 'gauge', labels: [], help: 'Counters that the store has room for.' },
  edge_store_occupied_slots: { type: 'gauge', labels: [], help: 'Slots in use, including those of refilled buckets.' },
  edge_store_forced_evictions_total: {
    type: 'counter',
    labels: [],
    help: 'Counters evicted before they had refilled, or not stored at all, because the table had no room. If it rises, raise EDGE_STORE_SIZE.',
  },
  edge_redis_answers_total: {
    type: 'counter',
    labels: ['by'],
    help: 'Counter checks by what decided them: redis, lease (no round trip), refusal (remembered, no round trip), or failure_mode.',
  },
  edge_redis_round_trip_seconds: {
    type: 'histogram',
    labels: [],
    bounds: [5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1],
    help: 'Time from a call to Redis to its reply; each is one round trip.',
  },
  edge_redis_errors_total: {
    type: 'counter',
    labels: ['kind'],
    help: 'Failed calls to Redis: timeout, connection (lost or none), or reply (Redis returned an error).',
  },
  edge_redis_doubts_total: {
    type: 'counter',
    labels: ['what'],
    help: 'Calls to Redis with unknown outcome: take, give_back, settlement, renewal or lease. They are not retried.',
  },
  edge_redis_circuit_open: {
    type: 'gauge',
    labels: ['node'],
    help: 'Threads that currently do not call this node, because it was slow or unreachable; 0 is good.',
  },
  edge_redis_circuit_changes_total: { type: 'counter', labels: ['to'], help: 'Circuits that opened or closed.' },
  edge_redis_leases: { type: 'gauge', labels: [], help: 'Leases (blocks of pre-fetched tokens) currently held.' },
  edge_redis_leased_tokens_total: {
    type: 'counter',
    labels: ['what'],
    help: 'Pre-fetched tokens: leased, given_back unused, or lost (unused, and could not be returned).',
  },
  edge_llm_tokens_reserved_total: {
    type: 'counter',
    labels: ['policy', 'rule'],
    help: 'Tokens reserved: prompt estimate plus max completion, or with reserve what streams have reserved by their end.',
  },
  edge_llm_tokens_used_total: { type: 'counter', labels: ['policy', 'rule'], help: 'Tokens charged for responses.' },
  edge_llm_tokens_given_back_total: {
    type: 'counter',
    labels: ['policy', 'rule'],
    help: 'Tokens reserved and not used.',
  },
  edge_llm_tokens_overdrawn_total: {
    type: 'counter',
    labels: ['policy', 'rule'],
    help: 'Tokens used beyond the reservation; they are charged too.',
  },
  edge_cost_reserved_total: {
    type: 'counter',
    labels: ['policy', 'rule'],
    help: 'Money reserved, in units of the currency; with reserve, what streams have reserved by their end.',
  },
  edge_cost_spent_total: {
    type: 'counter',
    labels: ['policy', 'rule'],
    help: 'Money charged for responses, in units of the currency.',
  },
  edge_cost_unlisted_models_total: {
    type: 'counter',
    labels: ['policy', 'rule'],
    help: 'Responses of models that only "*" has a price for, in a table that prices others by name.',
  },
  edge_budget_warnings_total: {
    type: 'counter',
    labels: ['policy', 'rule', 'percent'],
    help: 'Callers that reached a percentage in warn_at_percent of their budget, once for each window.',
  },
  edge_llm_settlements_total: {
    type: 'counter',
    labels: ['end'],
    help: 'Settled responses by how they ended: done, truncated, client_gone or backend_failed.',
  },
  edge_llm_not_understood_total: {
    type: 'counter',
    labels: ['policy'],
    help: 'Responses with neither usage nor text in a known format, to requests with a prompt or a token limit: the reservation stays charged.',
  },
  edge_llm_truncations_total: {
    type: 'counter',
    labels: ['policy', 'rule', 'cause'],
    help: 'Streams cut: by max_completion_tokens, or because a budget was used up (budget).',
  },
  edge_llm_would_truncate_total: {
    type: 'counter',
    labels: ['policy', 'rule', 'cause'],
    help: 'Streams that a policy in shadow mode would have cut, by the same causes.',
  },
  edge_llm_growth_total: {
    type: 'counter',
    labels: ['policy', 'rule', 'outcome'],
    help: 'Requests for more by reservations that grow: granted, refused, unavailable (no store), not_enforced, or too_late (given back).',
  },
  edge_llm_estimate_ratio: {
    type: 'histogram',
    labels: ['kind'],
    bounds: [0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 4],
    help: "The estimate divided by the provider's count, for prompt and completion; 1 is exact.",
  },
  edge_llm_open_streams: { type: 'gauge', labels: [], help: 'Streamed responses in flight with a reservation.' },
  edge_llm_reservations_in_flight: {
    type: 'gauge',
    labels: ['policy', 'rule', 'reservation'],
    help: 'Requests in flight with a reservation of tokens or money: whole, or growing while the stream runs.',
  },
  edge_llm_tokens_in_flight: {
    type: 'gauge',
    labels: ['policy', 'rule', 'reservation'],
    help: 'Tokens that these requests have reserved.',
  },
  edge_cost_in_flight: {
    type: 'gauge',
    labels: ['policy', 'rule', 'reservation'],
    help: 'Money that these requests have reserved, in units of the currency.',
  },
  edge_reservations_total: {
    type: 'counter',
    labels: ['outcome'],
    help: 'Reservations that a gateway asked to settle: issued, or not issued because of too_large or numbers_exhausted.',
  },
  edge_settlements_total: {
    type: 'counter',
    labels: ['outcome'],
    help: 'Calls of /v1/settle: settled, renewed, or the code of the error.',
  },
  ...PROXY_METRICS,
  edge_admin_failures_total: {
    type: 'counter',
    labels: [],
    help: 'Requests for /livez, /readyz, /metrics, debug sessions, the admin API and its page that failed with 500.',
  },
  edge_events_dropped_total: {
    type: 'counter',
    labels: ['to'],
    help: 'Events that were not delivered: stream (to a slow reader), webhook (to EDGE_EVENTS_URL), or hub (a worker sent too many).',
  },
  edge_decision_log_lines_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Lines for EDGE_DECISION_LOG: written, dropped (the disk was too slow), failed (not written), or too_long.',
  },
  edge_usage_lines_written_total: { type: 'counter', labels: [], help: 'Lines written to EDGE_USAGE_DIR.' },
  edge_usage_lines_lost_total: {
    type: 'counter',
    labels: ['reason'],
    help: 'Requests that are missing in EDGE_USAGE_DIR, by reason: disk_slow, disk_failed, too_long, worker_died or internal_error.',
  },
  edge_usage_lost_tokens_total: {
    type: 'counter',
    labels: ['policy', 'rule'],
    help: 'Tokens charged for requests that are missing in EDGE_USAGE_DIR.',
  },
  edge_usage_lost_cost_total: {
    type: 'counter',
    labels: ['policy', 'rule'],
    help: 'Money charged for requests that are missing in EDGE_USAGE_DIR, in units of the currency.',
  },
  edge_usage_waiting_lines: { type: 'gauge', labels: [], help: 'Lines for EDGE_USAGE_DIR that workers have not handed over yet.' },
  edge_usage_waiting_tokens: { type: 'gauge', labels: ['policy', 'rule'], help: 'Tokens charged in these lines.' },
  edge_usage_waiting_cost: {
    type: 'gauge',
    labels: ['policy', 'rule'],
    help: 'Money charged in these lines, in units of the currency.',
  },
  edge_spans_sent_total: { type: 'counter', labels: [], help: 'Spans that EDGE_OTLP_URL accepted.' },
  edge_spans_dropped_total: {
    type: 'counter',
    labels: [],
    help: 'Spans that were lost: EDGE_OTLP_URL did not accept them, or too many were waiting.',
  },
  edge_debug_logins_total: { type: 'counter', labels: ['result'], help: 'Attempts to open a debug session: opened or refused.' },
  edge_workers: {
    type: 'gauge',
    labels: [],
    help: 'Threads that serve: EDGE_WORKERS minus those being replaced; 0 before the main port is open.',
  },
  edge_worker_deaths_total: {
    type: 'counter',
    labels: ['cause'],
    help: 'Workers that died and were replaced: exception, out_of_memory, or exit (any other cause).',
  },
  edge_connections_refused_total: {
    type: 'counter',
    labels: ['port'],
    help: 'Connections refused on a listener (main, socket, grpc, grpc_socket, admin), because the limit on open files allows no more.',
  },
  edge_worker_connections: { type: 'gauge', labels: ['worker'], help: 'Open client connections by worker.' },
  edge_worker_busy_ratio: { type: 'gauge', labels: ['worker'], help: 'Share of the last five seconds in which the worker was busy.' },
  edge_worker_heap_bytes: { type: 'gauge', labels: ['worker'], help: 'JavaScript heap in use by worker.' },
  edge_state_saves_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Attempts to save the counters in EDGE_STATE_FILE: saved or failed.',
  },
  edge_state_last_save_timestamp_seconds: {
    type: 'gauge',
    labels: [],
    help: 'When the counters were last saved, or found to be in the file already, in unix seconds.',
  },
  edge_state_last_save_counters: { type: 'gauge', labels: [], help: 'Counters in the last save of EDGE_STATE_FILE.' },
  edge_metrics_overflow_total: {
    type: 'counter',
    labels: [],
    help: 'Counts that were merged, because there were too many different series since startup.',
  },
  process_cpu_user_seconds_total: { type: 'counter', labels: [], help: 'CPU time of the process in user mode.' },
  process_cpu_system_seconds_total: { type: 'counter', labels: [], help: 'CPU time of the process in kernel mode.' },
  process_cpu_seconds_total: { type: 'counter', labels: [], help: 'CPU time of the process, all threads.' },
  process_start_time_seconds: { type: 'gauge', labels: [], help: 'When the process started, in unix seconds.' },
  process_resident_memory_bytes: { type: 'gauge', labels: [], help: 'Resident memory of the process.' },
  process_open_fds: { type: 'gauge', labels: [], help: 'Open file descriptors (Linux).' },
  process_max_fds: { type: 'gauge', labels: [], help: 'Limit on open file descriptors (Linux).' },
  edge_build_info: { type: 'gauge', labels: ['version', 'node'], help: 'The running release and its Node version; always 1.' },
} as const satisfies Record<string, MetricSpec>

export interface MetricSpec {
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly labels: readonly string[]
  /** Upper bounds of a histogram's buckets. */
  readonly bounds?: readonly number[]
  readonly help: string
}

export type MetricName = keyof typeof CATALOGUE

type SpecOf<Name extends MetricName> = (typeof CATALOGUE)[Name]

export type HistogramName = { [Name in MetricName]: SpecOf<Name> extends { bounds: readonly number[] } ? Name : never }[MetricName]

export const METRIC_NAMES = Object.keys(CATALOGUE) as readonly MetricName[]
