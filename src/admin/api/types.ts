/**
 * The JSON of the admin API about requests and rules, for the server, the commands and the operators' page; `caller-types.ts` has what is about callers, and
 * `instance-types.ts` the rest. Each type is described in `assets/openapi/admin.json` by the schema of the same name, and a test compares the two.
 */

/** A time in UTC, such as `2026-01-31T12:00:00.000Z`. */
export type Time = string

export type PolicyMode = 'enforce' | 'shadow'

/** Kinds of limits that a rule's counters enforce. */
export type CounterKind = 'bucket' | 'minute' | 'day' | 'window' | 'budget' | 'in_flight'

/** What one unit of a counter is: a request, an LLM token, money, or whatever the rule's own `cost` is expressed in. */
export type CounterUnit = 'requests' | 'tokens' | 'money' | 'units'

/** A caller's values by the rule's `limit_keys`. Credentials are digests. */
export type CallerValues = Readonly<Record<string, string>>

export interface ErrorJson {
  readonly error: { readonly message: string; readonly type: ErrorType; readonly code: ErrorCode }
}

export type ErrorType = 'invalid_request_error' | 'authentication_error' | 'permission_error' | 'rate_limit_error' | 'server_error'

export type ErrorCode =
  | 'bad_request'
  | 'missing_reason'
  | 'bad_until'
  | 'wrong_values'
  | 'unauthorized'
  | 'csrf'
  | 'read_only'
  | 'too_many_attempts'
  | 'not_found'
  | 'unknown_policy'
  | 'unknown_rule'
  | 'unknown_override'
  | 'unknown_bundle'
  | 'unknown_key'
  | 'unknown_backend'
  | 'top_off'
  | 'method_not_allowed'
  | 'override_exists'
  | 'key_exists'
  | 'key_revoked'
  | 'not_cooling'
  | 'body_too_large'
  | 'store_unavailable'
  | 'too_many_readers'
  | 'internal_error'

export interface PolicyPage {
  readonly bundle_version: string | null
  /** The value of `after` for the next page; null on the last one. */
  readonly next: string | null
  readonly policies: readonly PolicyJson[]
}

export interface PolicyJson {
  readonly id: string
  readonly mode: PolicyMode
  readonly selector: SelectorJson
  readonly last_minute: { readonly allowed: number; readonly rejected: number; readonly would_reject: number }
  readonly rules: readonly RuleJson[]
}

/** A selector as the bundle defines it. */
export interface SelectorJson {
  readonly pathPrefix?: string | undefined
  readonly pathExact?: string | undefined
  readonly exceptPaths?: readonly string[] | undefined
  readonly methods?: readonly string[] | undefined
  readonly hosts?: readonly string[] | undefined
  readonly domain?: string | undefined
  readonly descriptors?: PatternsJson | undefined
}

/** Descriptor keys, and the values that each of them may have. */
export type PatternsJson = Readonly<Record<string, string | readonly string[]>>

export interface RuleJson {
  readonly name: string
  readonly limit_keys: readonly string[]
  /** Credentials are digests. */
  readonly match?: 'else' | PatternsJson
  readonly algorithm: string
  /** How long a request may wait in reverse_proxy before the rule rejects it; missing if it does not wait. */
  readonly wait_seconds?: number
  /** Its members depend on the algorithm. */
  readonly algorithm_config: Readonly<Record<string, unknown>>
  readonly last_minute: { readonly rejected: number; readonly would_reject: number }
}

export interface ExplainRequestJson {
  readonly method: string
  readonly uri: string
  readonly host?: string | null | undefined
  readonly headers?: Readonly<Record<string, string | readonly string[]>> | null
  readonly body?: string | null | undefined
}

/** Outcome that a request would get now, and the reasons for it. */
export interface ExplanationJson {
  readonly action: 'allow' | 'reject' | 'refuse'
  readonly status: number
  readonly reason: string
  readonly policy: string | null
  readonly rule: string | null
  /** Present if the request would wait before it is rejected (`wait_seconds`, in `reverse_proxy`). */
  readonly wait?: ExplainedWaitJson
  readonly headers: Readonly<Record<string, string>>
  /** Who sends the request; null if the bundle has no `callers`, or nobody looked. */
  readonly caller: ExplainedCallerJson | null
  /** Present if the bundle has routes, in `reverse_proxy`, unless the request is refused before its route is known. */
  readonly backend?: ExplainedBackendJson
  /** All policies of the bundle; empty if the request was refused before any policy was checked. */
  readonly policies: readonly ExplainedPolicyJson[]
}

/** Where a request would be sent if it is allowed. */
export interface ExplainedBackendJson {
  /** Position of the route in the bundle, from 0; null if no route covers the request. */
  readonly route: number | null
  /** Whether the request stays with one backend, by its values of `stick_to`. */
  readonly sticky: boolean
  /** Those that share the requests, then the fallback in its order; empty without a route. */
  readonly candidates: readonly ExplainedCandidateJson[]
}

export interface ExplainedCandidateJson {
  readonly name: string
  readonly fallback: boolean
  readonly weight: number
  /** Model that is sent instead of the request's; null if it stays. */
  readonly model: string | null
  /** For requests of this model. `probing`: its time is over, and one request at a time tries it. */
  readonly state: 'healthy' | 'cooling' | 'probing'
  /** Why it cools, or has cooled: `5xx`, `connect`, `timeout`, `429`, `401`, `402` or `403`; null if it is healthy. */
  readonly reason: string | null
  /** In RFC 3339; null if it does not cool. */
  readonly cooling_until: string | null
  /** Probability that the request is sent here first, from 0 to 1. */
  readonly share: number
}

export interface ExplainedWaitJson {
  /** In how many seconds the request would pass; null if it waits for requests in flight, whose end nobody knows. Those who wait already are not counted. */
  readonly seconds: number | null
  readonly up_to_seconds: number
}

export interface ExplainedCallerJson {
  /** Null if the caller is not known. */
  readonly id: string | null
  readonly labels: Readonly<Record<string, string>>
  /** Why the caller is not known, such as `no_credential` or `expired`; null if it is. */
  readonly problem: string | null
}

export interface ExplainedPolicyJson {
  readonly id: string
  readonly mode: PolicyMode
  readonly matched: boolean
  /** Why the policy does not cover the request; null if it does. */
  readonly why: 'path' | 'method' | 'host' | 'except_path' | 'domain' | null
  /** Empty if the policy does not cover the request. */
  readonly rules: readonly ExplainedRuleJson[]
}

export interface ExplainedRuleJson {
  readonly name: string
  readonly applied: boolean
  /** A code such as `missing_descriptor`, `repeated_descriptor` or `no_match`; null if the rule applies. */
  readonly why: string | null
  /** Whether it has `match: else`. */
  readonly match_else: boolean
  /** Of an `else` that does not apply: the name of the rule that matches, so that this one is skipped; otherwise null. */
  readonly instead: string | null
  /** Amount that the request would take from each counter; null if it is unknown, because two readers could understand the request differently. */
  readonly cost: number | null
  /** Completion tokens that its reservation would ask for at a time while the stream runs; missing if it does not grow. */
  readonly grows_by?: number
  readonly descriptors: readonly ExplainedDescriptorJson[]
  readonly counters: readonly ExplainedCounterJson[]
  /** Id of the override that is in force for this caller. */
  readonly override: string | null
}

export interface ExplainedDescriptorJson {
  readonly key: string
  /** Null if the descriptor is missing or repeated. Credentials are digests. */
  readonly value: string | null
}

/** A counter in tokens or, for a budget, in hundredths of its currency's unit. */
export interface CounterJson {
  readonly kind: CounterKind
  /** Amount left, with fractions; negative if settlements left a debt. */
  readonly level: number
  readonly limit: number
  /** Amount left, rounded down and never negative. */
  readonly remaining: number
  /** Seconds until the counter is full again. */
  readonly reset_s: number
  /** What requests in flight at this instance have reserved of what is taken. For a day's tokens and budgets, in `reverse_proxy`. */
  readonly reserved?: number
}

export interface ExplainedCounterJson extends CounterJson {
  /** Seconds until the request would fit; null if it never would. */
  readonly wait_s: number | null
}

export interface CountersRequest {
  readonly policy: string
  readonly rule: string
  readonly values?: CallerValues
}

export interface ResetRequest extends CountersRequest {
  readonly reason: string
}

/** Counters of one rule for one caller. */
export interface CountersJson {
  readonly policy: string
  readonly rule: string
  readonly mode: PolicyMode
  readonly values: CallerValues
  readonly unit: CounterUnit
  readonly counters: readonly CounterJson[]
  /** Number of requests in flight; null if the rule does not count them. */
  readonly holds: number | null
  /** Id of the override that is in force for this caller. */
  readonly override: string | null
}

/** Effect of an override. A request has exactly one of these members. */
interface OverrideChange {
  readonly multiply?: number
  /** New values of members of the rule's `algorithm_config`. */
  readonly set?: Readonly<Record<string, unknown>>
  readonly unlimited?: true
  readonly block?: true
  /** Beside `block`: whether it also ends the open streams of those that it blocks. */
  readonly cut_streams?: boolean
  readonly shadow_all?: true
}

export interface OverrideRequestJson extends OverrideChange {
  readonly policy?: string
  readonly rule?: string
  /** Names one caller by all of the rule's `limit_keys`. */
  readonly values?: CallerValues
  /** Takes the place of `values` if the override applies to all callers of the rule. */
  readonly all?: true
  /** A time in UTC, or a duration such as `2h`. */
  readonly until: string
  readonly reason: string
  /** Id of the override that this one replaces. */
  readonly replace?: string
}

/** Edits an override. Members that are absent stay as they are. */
export interface OverrideEditRequest extends Omit<OverrideChange, 'shadow_all'> {
  /** A time in UTC, or a duration from now such as `2h`. */
  readonly until?: string
  readonly reason: string
}

/** An operator's override. It has a policy, a rule and values unless it is `shadow_all`. */
interface OverrideFacts extends OverrideChange {
  readonly id: string
  readonly policy?: string
  readonly rule?: string
  /** Null if the override applies to all callers. */
  readonly values?: CallerValues | null
  /** Set if it applies to all callers, as it is sent. */
  readonly all?: true
  readonly until: Time
  readonly reason: string
  readonly actor: string
  readonly created_at: Time
  /** The latest edit; null if the override is as it was set. */
  readonly edited: OverrideEditJson | null
}

export interface OverrideEditJson {
  readonly actor: string
  readonly reason: string
  readonly at: Time
}

export interface OverrideJson extends OverrideFacts {
  readonly durable: boolean
  /** False while the active bundle does not have the rule, or the change does not fit it. */
  readonly in_force: boolean
  /** What the active bundle's rule does by itself, and with this override. Null for `shadow_all`, and while the override is not in force. */
  readonly before: RuleEffectJson | null
  readonly after: RuleEffectJson | null
  /** Only in responses of a reverse proxy to a request that sets or edits a block. */
  readonly streams?: OpenStreamsJson
}

/** Event streams and WebSockets. */
export interface OpenStreamsJson {
  /** How many were open at this instance, of all callers. */
  readonly open: number
  /** Whether those of the blocked callers end, or go on until they end by themselves. */
  readonly cut: boolean
  /** How many this instance has ended; only if they are cut, and not in a preview. */
  readonly ended?: number
}

export interface Overrides {
  readonly overrides: readonly OverrideJson[]
}

/** An override that is over, or as it was before an edit. */
export interface EndedOverrideJson extends OverrideFacts {
  readonly ended: OverrideEndJson
}

export interface OverrideEndJson {
  readonly at: Time
  /** `over` if it expired. */
  readonly why: 'ended' | 'replaced' | 'edited' | 'over'
  /** Null if it expired. */
  readonly actor: string | null
  readonly reason: string | null
}

export interface OverrideHistory {
  readonly overrides: readonly EndedOverrideJson[]
}

/** What an override would do. Finding out changes nothing. */
export interface OverridePreviewJson extends OverrideChange {
  readonly policy?: string
  readonly rule?: string
  /** Null if the override would apply to all callers. */
  readonly values?: CallerValues | null
  readonly all?: true
  readonly until: Time
  /** Id of the override that would be replaced or edited. */
  readonly replaces: string | null
  readonly covers: OverrideCoverage
  /** What the rule does to these callers now, and what it would do. Null for `shadow_all`, and if the active bundle does not have the rule. */
  readonly before: RuleEffectJson | null
  readonly after: RuleEffectJson | null
  /** Only in responses of a reverse proxy about a block. */
  readonly streams?: OpenStreamsJson
}

export interface OverrideCoverage {
  readonly callers: 'one' | 'all'
  /** How many policies; 1 unless it is `shadow_all`. */
  readonly policies: number
  /** Requests that the policy decided at this instance in the last minute, of all callers. Null for `shadow_all`. */
  readonly decided_last_minute: number | null
}

export interface RuleEffectJson {
  readonly effect: 'limits' | 'no_limit' | 'blocks'
  /** One for each of the rule's counters. */
  readonly limits: readonly LimitJson[]
}

export interface LimitJson {
  readonly kind: CounterKind
  /** In the unit of the counter, as in `Counter`. */
  readonly limit: number
  /** In words, such as `60 requests per minute, burst 100`. */
  readonly text: string
}

export interface SessionRequest {
  readonly token: string
  readonly actor?: string
}

export interface SessionJson {
  readonly expires_at: Time
  /** Whether it was opened with the token for reading alone. */
  readonly read_only: boolean
}

export interface NewSession extends SessionJson {
  readonly csrf_token: string
}
