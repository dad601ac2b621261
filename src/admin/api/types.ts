/**
 * The JSON of the admin API about requests, rules and callers, for the server, the commands and the operators' page; `instance-types.ts` has the
 * rest. Each type is described in `assets/openapi/admin.json` by the schema of the same name, and a test compares the two.
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

export interface Error {
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
  | 'too_many_attempts'
  | 'not_found'
  | 'unknown_policy'
  | 'unknown_rule'
  | 'unknown_override'
  | 'top_off'
  | 'method_not_allowed'
  | 'override_exists'
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
  readonly headers: Readonly<Record<string, string>>
  /** All policies of the bundle; empty if the request was refused before any policy was checked. */
  readonly policies: readonly ExplainedPolicyJson[]
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
  /** Amount that the request would take from each counter; null if it is unknown, because two readers could understand the request differently. */
  readonly cost: number | null
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
  readonly shadow_all?: true
}

export interface OverrideRequestJson extends OverrideChange {
  readonly policy?: string
  readonly rule?: string
  /** If absent, the override applies to all callers. */
  readonly values?: CallerValues
  /** A time in UTC, or a duration such as `2h`. */
  readonly until: string
  readonly reason: string
  /** Id of the override that this one replaces. */
  readonly replace?: string
}

/** An operator's override. It has a policy, a rule and values unless it is `shadow_all`. */
export interface OverrideJson extends OverrideChange {
  readonly id: string
  readonly policy?: string
  readonly rule?: string
  /** Null if the override applies to all callers. */
  readonly values?: CallerValues | null
  readonly until: Time
  readonly reason: string
  readonly actor: string
  readonly created_at: Time
  readonly durable: boolean
  /** False while the active bundle does not have the rule, or the change does not fit it. */
  readonly in_force: boolean
}

export interface Overrides {
  readonly overrides: readonly OverrideJson[]
}

/** Over which time rejects are counted, and how exactly. */
interface CountedTime {
  readonly since: Time
  /** Largest amount by which a count may be too high; counts of the hour may also be too low by it. */
  readonly max_error: number
  /** False if a worker's counts are missing, so that the counts shown may be too low. */
  readonly complete: boolean
}

/** Of the last five to ten minutes, and of the last hour. */
export interface TopJson extends CountedTime {
  readonly hour: CountedTime
  readonly rejected: readonly RejectedCaller[]
  readonly nearest: readonly NearCallerJson[]
}

/** A caller of a rule. */
interface RuleCaller {
  readonly policy: string
  readonly rule: string
  /** That of its policy. Policies in shadow mode reject nothing. */
  readonly mode: PolicyMode
  readonly values: CallerValues
}

export interface RejectedCaller extends RuleCaller {
  /** 0: it was rejected earlier in the hour. */
  readonly count: number
  readonly hour_count: number
  /** Within the hour, in whole seconds. */
  readonly first_at: Time
  readonly last_at: Time
}

export interface NearCallerJson extends RuleCaller {
  /** The limit of the rule that is nearest. */
  readonly kind: CounterKind
  /** The length of its windows, such as `1mo`; null where it has none. */
  readonly period: string | null
  readonly unit: CounterUnit
  readonly remaining: number
  readonly limit: number
  /** Rounded down. */
  readonly left_percent: number
}

/** Values of a caller: by key, or one alone whose key is not known. */
export interface CallersRequest {
  readonly values?: CallerValues
  readonly value?: string
  /** Only rules of this policy. */
  readonly policy?: string
}

/** What is known of a caller. */
export interface CallersJson {
  readonly bundle_version: string | null
  /**
   * Rules all of whose `limit_keys` were given, in the order of the bundle. For a value alone they are only those that know the caller: with others its
   * value, which may be a credential, would come back in clear text.
   */
  readonly rules: readonly CallerRule[]
  /** How many rules were looked at for `rules`. */
  readonly rules_tried: number
  /** False where Redis is unreachable. */
  readonly counters_known: boolean
  /** Rules that need more values to find a counter. */
  readonly incomplete_rules: readonly IncompleteRule[]
  /** How many more rules concern the caller: no more than 500 are looked at. */
  readonly rules_left_out: number
  /** Keys that were given and that no rule of the bundle has. */
  readonly unused_keys: readonly string[]
  /** For this caller, for all callers of a rule listed here, and one that stops all enforcement. */
  readonly overrides: readonly OverrideJson[]
  /** This caller in `GET top`; null where EDGE_TOP is off. */
  readonly top: TopJson | null
}

interface ConcernedRule extends RuleCaller {
  readonly algorithm: string
  readonly selector: SelectorJson
  /** Keys of `match` that were not given, so that the rule may not apply. */
  readonly depends_on: readonly string[]
}

export interface CallerRule extends ConcernedRule {
  readonly unit: CounterUnit
  /** Null where Redis is unreachable. */
  readonly counters: readonly CounterJson[] | null
  /** Whether a counter is not full, that is whether anything is counted for the caller now. */
  readonly counted: boolean
  /** Requests in flight; null where the rule does not count them. */
  readonly holds: number | null
  /** The id of the override that is in force for this caller. */
  readonly override: string | null
}

export interface IncompleteRule extends ConcernedRule {
  /** The `limit_keys` that were not given. */
  readonly missing: readonly string[]
}

export interface SessionRequest {
  readonly token: string
  readonly actor?: string
}

export interface SessionJson {
  readonly expires_at: Time
}

export interface NewSession extends SessionJson {
  readonly csrf_token: string
}
