/** Every metric of ours, as `docs/metrics.md` lists them. Those of the process come from prom-client. */
export const CATALOGUE = {
  edge_decisions_total: {
    type: 'counter',
    labels: ['action', 'reason', 'policy', 'route'],
    help: 'Decisions by action and reason; policy and route are those of the policy that decided.',
  },
  edge_descriptor_missing_total: {
    type: 'counter',
    labels: ['key'],
    help: 'Descriptors that a rule needed and the request did not have; the rule was skipped.',
  },
  edge_would_reject_total: {
    type: 'counter',
    labels: ['policy', 'rule', 'reason'],
    help: 'Rejects that a policy in shadow mode only recorded.',
  },
  edge_refused_requests_total: {
    type: 'counter',
    labels: ['reason'],
    help: 'Requests that could not be decided, by X-Edge-Reason.',
  },
  edge_decision_duration_seconds: { type: 'histogram', labels: [], help: 'Time from the parsed request to the decision.' },
  edge_bundle_info: { type: 'gauge', labels: ['version', 'hash'], help: 'The active policy bundle; always 1.' },
  edge_bundle_last_update_timestamp_seconds: { type: 'gauge', labels: [], help: 'When the active bundle was applied.' },
  edge_bundle_reloads_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Bundles looked at: applied, refused, unchanged, or unreadable.',
  },
  edge_store_slots: { type: 'gauge', labels: [], help: 'Counters that the store has room for.' },
  edge_store_occupied_slots: { type: 'gauge', labels: [], help: 'Slots in use, those of refilled buckets included.' },
  edge_store_forced_evictions_total: {
    type: 'counter',
    labels: [],
    help: 'Counters thrown out before they had refilled, because their set was full: raise EDGE_STORE_SIZE.',
  },
  edge_debug_logins_total: { type: 'counter', labels: ['result'], help: 'Attempts to open a debug session: opened or refused.' },
  edge_build_info: { type: 'gauge', labels: ['version', 'node'], help: 'This build; always 1.' },
} as const satisfies Record<string, MetricSpec>

export interface MetricSpec {
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly labels: readonly string[]
  readonly help: string
}

export type MetricName = keyof typeof CATALOGUE
