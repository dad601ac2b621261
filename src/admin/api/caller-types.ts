import type { CallerValues, CounterJson, CounterKind, CounterUnit, OverrideJson, PolicyMode, SelectorJson, Time } from './types.ts'

/** The JSON of the admin API about callers: who is rejected most, who is nearest to a limit, and what is known of one. See `types.ts`. */

/** Over which time rejects are counted, and how exactly. */
interface CountedTime {
  readonly since: Time
  /** Largest amount by which a count may be too high; counts of the hour, and those since a given time, may also be too low by it. */
  readonly max_error: number
  /** False if a worker's counts are missing, so that the counts shown may be too low. */
  readonly complete: boolean
}

/** Since the time that was asked for, or of the last five to ten minutes, and of the last hour. */
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
  /** As in a counter: below zero is a debt. */
  readonly level: number
  readonly remaining: number
  readonly limit: number
  /** As in a counter. */
  readonly reserved?: number
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
  /** How many more rules concern the caller: no more than 500 of each of the two lists are looked at. */
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
  /** Whether it has `match: else`, and so applies only where no other rule of its policy with a `match` does. */
  readonly match_else: boolean
  /** Keys that were not given, and whose values also decide whether the rule applies: those of its `match`, or of the other rules where it is an `else`. */
  readonly depends_on: readonly string[]
}

export interface CallerRule extends ConcernedRule {
  readonly unit: CounterUnit
  /** Null where Redis is unreachable, and where `by_digest` is true. */
  readonly counters: readonly CounterJson[] | null
  /** Whether a credential was given as what looks like its digest, and nothing is counted for it: counters are found by the credential alone. */
  readonly by_digest: boolean
  /** Whether a counter is not full, that is whether anything is counted for the caller now. */
  readonly counted: boolean
  /** Requests in flight; null where the rule does not count them. */
  readonly holds: number | null
  /** The id of the override that is in force for this caller. */
  readonly override: string | null
}

export interface IncompleteRule extends ConcernedRule {
  /** The `limit_keys` that were not given; for a value alone all of them. */
  readonly missing: readonly string[]
  /** For a value alone: those of `missing` that it may be a value of. */
  readonly may_be: readonly string[]
}

/** How the active bundle knows callers. */
export interface KnownCallers {
  readonly bundle_version: string | null
  /** What requests without a verified caller get: `enforce` refuses them, `shadow` records that it would; null if nobody is refused for that. */
  readonly mode: PolicyMode | null
  /** The names of the issuers whose tokens are verified. */
  readonly issuers: readonly string[]
  /** Where issued keys are read, such as `bearer`; null if nobody reads them. */
  readonly keys_from: readonly string[] | null
  /** The labels that rules read as `caller:<label>`, sorted: the first thousand. `id` is none. */
  readonly labels: readonly string[]
}
