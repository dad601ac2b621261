/** What an instance did between two looks at its metrics, as the response has it. Counts are of `seconds`, not of a second. */
export interface ActivitySample {
  /** Of its end. */
  readonly time: string
  readonly seconds: number
  readonly allowed: number
  readonly rejected: number
  readonly would_reject: number
  readonly refused: number
  /** Rejects and refusals, each by reason. */
  readonly reasons: { readonly rejected: CountsByName; readonly refused: CountsByName }
  /** Of those that decided anything, the busiest, and those that rejected most. */
  readonly policies: readonly PolicySample[]
  readonly latency: Quantiles | null
  readonly spending: SpendingSample
  readonly store: { readonly occupied: number; readonly evicted: number }
  /** Null in `decision_service`. */
  readonly backend: BackendSample | null
  /** Null where counters are in this process alone. */
  readonly redis: RedisSample | null
}

export type CountsByName = Readonly<Record<string, number>>

export interface PolicySample {
  readonly policy: string
  readonly allowed: number
  readonly rejected: number
  readonly would_reject: number
}

export interface Quantiles {
  readonly p50_ms: number
  readonly p99_ms: number
}

/** As rules count it: a request that two rules cover counts twice. */
export interface SpendingSample {
  readonly tokens: number
  readonly money: number
  /** Those that spent most. */
  readonly rules: readonly RuleSpending[]
}

export interface RuleSpending {
  readonly policy: string
  readonly rule: string
  readonly tokens: number
  readonly money: number
}

export interface BackendSample {
  readonly in_flight: number
  readonly streams: number
  readonly tunnels: number
  readonly waiting: number
  readonly responses: CountsByName
  readonly failures: CountsByName
  readonly latency: Quantiles | null
}

export interface RedisSample {
  readonly round_trips: number
  readonly latency: Quantiles | null
  /** Counter checks by what decided them. */
  readonly checks: CountsByName
  readonly errors: CountsByName
  /** Threads that do not call a node at present. */
  readonly open_circuits: number
}

/** A worker at present. Decisions are those of the last sample. */
export interface WorkerActivity {
  readonly worker: number
  readonly decisions: number
  readonly busy_ratio: number
  readonly heap_bytes: number
  readonly connections: number
}
