/** Responses of the admin API, as far as the commands show them. */

export interface StatusResponse {
  readonly version: string
  readonly uptime_s: number
  readonly mode: string
  readonly workers: { readonly configured: number; readonly alive: number }
  readonly bundle: { readonly version: string; readonly hash: string; readonly applied_at: string; readonly policies: number } | null
  readonly store: { readonly kind: string; readonly slots: number; readonly occupied: number }
  readonly redis: { readonly mode: string; readonly connected: boolean } | null
  readonly state_file: { readonly path: string; readonly saved_at: string | null } | null
  readonly shadow_all: OverrideResponse | null
  readonly problems: readonly { readonly code: string; readonly message: string; readonly since: string }[]
}

/** A caller's values by the keys of a rule; credentials are digests. */
export type CallerValues = Readonly<Record<string, string>>

export interface CounterResponse {
  readonly kind: string
  readonly level: number
  readonly limit: number
  readonly remaining: number
  readonly reset_s: number
}

export interface CountersResponse {
  readonly policy: string
  readonly rule: string
  readonly mode: string
  readonly values: CallerValues
  readonly counters: readonly CounterResponse[]
  readonly holds?: number | null
  /** Its id. */
  readonly override?: string | null
}

export interface ExplainResponse {
  readonly action: string
  readonly status: number
  readonly reason: string
  readonly policy?: string | null
  readonly rule?: string | null
  readonly headers: Readonly<Record<string, string | readonly string[]>>
  readonly policies: readonly ExplainedPolicyResponse[]
}

export interface ExplainedPolicyResponse {
  readonly id: string
  readonly mode: string
  readonly matched: boolean
  readonly why?: string | null
  readonly rules: readonly ExplainedRuleResponse[]
}

export interface ExplainedRuleResponse {
  readonly name: string
  readonly applied: boolean
  readonly why?: string | null
  readonly cost: number
  readonly descriptors: readonly { readonly key: string; readonly value?: string | null }[]
  /** `wait_s` is null where the request can never pass. */
  readonly counters: readonly (CounterResponse & { readonly wait_s: number | null })[]
  /** Its id. */
  readonly override?: string | null
}

export interface OverrideResponse {
  readonly id: string
  readonly policy?: string | null
  readonly rule?: string | null
  readonly values?: CallerValues | null
  readonly multiply?: number
  readonly set?: Readonly<Record<string, unknown>>
  readonly unlimited?: boolean
  readonly block?: boolean
  readonly shadow_all?: boolean
  readonly until: string
  readonly reason: string
  readonly actor: string
  readonly created_at: string
  readonly durable: boolean
  readonly in_force: boolean
}

export interface TopResponse {
  readonly since: string
  readonly max_error: number
  readonly complete: boolean
  readonly rejected: readonly TopRejected[]
  readonly nearest: readonly TopNearest[]
}

interface TopCaller {
  readonly policy: string
  readonly rule: string
  readonly values: CallerValues
}

export interface TopRejected extends TopCaller {
  readonly count: number
}

export interface TopNearest extends TopCaller {
  readonly kind: string
  readonly remaining: number
  readonly limit: number
}
