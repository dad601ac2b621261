/** The JSON of the admin API about the instance itself: its status, its bundle, its recent activity and its spending. See `types.ts`. */

import type { BackendInShort } from './backend-types.ts'
import type { CallerValues, CounterJson, OverrideJson, PolicyMode, Time } from './types.ts'

export interface Status {
  /** Names the instance among others: its host name and admin port. */
  readonly instance: string
  readonly version: string
  readonly uptime_s: number
  /** Resident memory of the process. */
  readonly memory_bytes: number
  readonly mode: 'decision_service' | 'reverse_proxy'
  readonly workers: { readonly configured: number; readonly alive: number }
  readonly bundle: BundleJson | null
  readonly store: { readonly kind: 'embedded' | 'redis'; readonly slots: number; readonly occupied: number }
  /** Null if this process keeps its own counters. */
  readonly redis: { readonly mode: 'exact' | 'leased'; readonly address: string; readonly connected: boolean } | null
  readonly state_file: { readonly path: string; readonly saved_at: Time | null } | null
  /** The key set of each issuer that the active bundle names, in its order. */
  readonly key_sets: readonly KeySetJson[]
  /** The backends of the active bundle, in its order; empty in `decision_service`. */
  readonly backends: readonly BackendInShort[]
  /** The override that suspends all enforcement; null if there is none. */
  readonly shadow_all: OverrideJson | null
  readonly problems: readonly ProblemJson[]
}

/** The key set that verifies the tokens of one issuer. Either `url` or `path` is null. */
export interface KeySetJson {
  /** Name of the entry of `callers.jwt`. */
  readonly issuer: string
  /** Without its query, which may contain a secret. */
  readonly url: string | null
  readonly path: string | null
  /** Usable keys of the last good set; 0 if there is none. */
  readonly keys: number
  /** When the set in use was last read; null if no reading was good. */
  readonly read_at: Time | null
  /** Why the set cannot be read, and since when; null if the last reading was good. */
  readonly problem: string | null
  readonly failing_since: Time | null
}

/** A current problem. */
export interface ProblemJson {
  /** Name of the log event that reported it, or of what the instance finds when asked, such as `requests_silent`. */
  readonly code: string
  readonly message: string
  readonly since: Time
  /** What is wrong with a bundle that was refused, one by one: the first ten of `details_in_all`. Empty for other problems. */
  readonly details: readonly string[]
  readonly details_in_all: number
}

export interface BundleJson {
  readonly version: string
  readonly hash: string
  readonly applied_at: Time
  readonly policies: number
}

/** The active bundle, where it came from, and what it changed. */
export interface BundleReportJson {
  readonly bundle: BundleJson | null
  readonly source: BundleSourceJson | null
  readonly previous: BundleJson | null
  readonly changes: BundleChangesJson | null
}

export interface BundleSourceJson {
  readonly path: string | null
  readonly url: string | null
  readonly cached: boolean
  readonly signature_required: boolean
  /** How often the instance has looked at the file since it started, and is done with what it found. Null for a URL. */
  readonly looks: number | null
  readonly problem: string | null
  readonly refused: RefusedBundleJson | null
}

export interface RefusedBundleJson {
  readonly version: string | null
  readonly hash: string | null
  readonly problems: readonly string[]
  readonly problems_in_all: number
}

/** The last ten bundles that were active, the newest first. */
export interface BundleListJson {
  readonly bundles: readonly PastBundleJson[]
}

export interface PastBundleJson extends BundleJson {
  readonly format: 'json' | 'yaml'
  readonly bytes: number
  readonly signed: boolean
  readonly warnings: number
  /** The first fifty of them. */
  readonly warning_texts: readonly string[]
  /** sha256 of what the bundle decides: the same for bundles that differ only in version, notes, comments, format or the order of fields. */
  readonly policies_hash: string
  /** Whether it has credentials: its rules or routes match some, or a backend gets one. */
  readonly has_credentials: boolean
  readonly has_text: boolean
  /** Null for the first bundle since the start. */
  readonly changes: ChangesInShortJson | null
}

export interface ChangesInShortJson {
  readonly policies: ChangeCountsJson
  readonly prices: ChangeCountsJson
  readonly reordered: boolean
  readonly callers: boolean
  readonly routing: boolean
  readonly usage: boolean
}

/** Says who is about to publish a bundle, and why. */
export interface BundleAnnouncement {
  /** sha256 of the bundle's bytes. */
  readonly hash: string
  readonly reason: string
}

/** A bundle that was active, and its text. */
export interface BundleTextJson extends PastBundleJson {
  /** How many credentials the text has as digests; 0 where it is as it came. */
  readonly hidden: number
  readonly text: string
}

/** What differs between two bundles. */
export interface BundleComparisonJson {
  readonly from: string
  readonly to: string
  readonly changes: BundleChangesJson
}

export interface BundleChangesJson {
  readonly policies: ChangeCountsJson
  readonly reordered: boolean
  readonly prices: ChangeCountsJson
  readonly callers: boolean
  readonly routing: boolean
  readonly usage: boolean
  readonly complete: boolean
  readonly policy_changes: readonly PolicyChange[]
  readonly price_changes: readonly PriceChange[]
  readonly caller_changes: readonly FieldChangeJson[]
  readonly routing_changes: readonly FieldChangeJson[]
  readonly usage_changes: readonly FieldChangeJson[]
}

export interface ChangeCountsJson {
  readonly added: number
  readonly removed: number
  readonly changed: number
  readonly unchanged: number
}

export type ChangeKindJson = 'added' | 'removed' | 'changed'

export interface PolicyChange {
  readonly kind: ChangeKindJson
  readonly policy: string
  readonly fields: readonly FieldChangeJson[]
  readonly rules: readonly RuleChange[]
  readonly left_out: number
}

export interface RuleChange {
  readonly kind: ChangeKindJson
  readonly rule: string
  readonly fields: readonly FieldChangeJson[]
}

export interface PriceChange {
  readonly kind: ChangeKindJson
  readonly table: string
  readonly model: string
  readonly fields: readonly FieldChangeJson[]
}

export interface FieldChangeJson {
  readonly field: string
  readonly before: string | null
  readonly after: string | null
}

/** How far back samples reach. The longer it is, the more time each sample covers. */
export type ActivityRange = '15m' | '1h' | '6h' | '24h'

/** Activity in the last quarter of an hour, or in a longer range. */
export interface Activity {
  /** How much time each sample of the range covers. */
  readonly interval_s: number
  /** Number of policies in the bundle. */
  readonly policies: number
  readonly busiest: readonly BusyPolicy[]
  readonly workers: readonly WorkerActivity[]
  /** Oldest first. */
  readonly samples: readonly ActivitySample[]
}

/** Decisions of one policy in the last minute. */
export interface BusyPolicy extends PolicySample {
  readonly mode: PolicyMode
}

/**
 * Activity of the instance between two readings of its metrics. Counts are totals over `seconds`, not per second; numbers of what is there now, such as
 * requests in flight, are those of the end, or the highest of the sample if its range is longer than a quarter of an hour.
 */
export interface ActivitySample {
  /** End of the sample. */
  readonly time: Time
  readonly seconds: number
  readonly allowed: number
  readonly rejected: number
  readonly would_reject: number
  readonly refused: number
  /** Numbers of rejects and of refusals, each by reason. */
  readonly reasons: { readonly rejected: CountsByName; readonly refused: CountsByName }
  /** The busiest policies, and those that rejected or would have rejected most. A policy that decided nothing is left out. */
  readonly policies: readonly PolicySample[]
  readonly latency: Quantiles | null
  readonly spending: SpendingSample
  /** Resident memory of the process. */
  readonly memory_bytes: number
  readonly store: { readonly occupied: number; readonly evicted: number }
  /** Null in `decision_service` mode. */
  readonly backend: BackendSample | null
  /** Null if this process keeps its own counters. */
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

/** Spending as the rules count it: a request that two rules cover counts twice. */
export interface SpendingSample {
  readonly tokens: number
  readonly money: number
  /** The rules that spent most. */
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
  /** Number of counter checks by what decided them. */
  readonly checks: CountsByName
  readonly errors: CountsByName
  /** Number of threads that currently do not call a node, added up over all nodes. */
  readonly open_circuits: number
}

/** Current state of a worker. Decisions are those of the last sample. */
export interface WorkerActivity {
  readonly worker: number
  readonly decisions: number
  readonly busy_ratio: number
  readonly heap_bytes: number
  readonly connections: number
}

/** Rules that count tokens or money, with what they have counted and what is left. */
export interface UsageJson {
  /** When counting began. */
  readonly since: Time
  /** Number of such rules in the bundle. */
  readonly total: number
  readonly rules: readonly SpendingRule[]
}

export interface SpendingRule {
  readonly policy: string
  readonly rule: string
  readonly unit: 'tokens' | 'money'
  readonly mode: PolicyMode
  readonly limit_keys: readonly string[]
  readonly algorithm: string
  readonly algorithm_config: Readonly<Record<string, unknown>>
  /** Null in `decision_service` mode, which sees no responses. */
  readonly used: UsedAmounts | null
  /** Null in `decision_service` mode, in which gateways settle. */
  readonly in_flight: InFlightAmounts | null
  /** Null if each caller has its own counters, or if Redis is unreachable. */
  readonly counters: readonly CounterJson[] | null
}

/** Tokens, or money in units of its currency, that responses have used. */
export interface UsedAmounts {
  readonly last_minute: number
  readonly last_15_minutes: number
  readonly since_start: number
}

/** What requests in flight have reserved, in tokens or in units of the currency. It is corrected to what they used when they end. */
export interface InFlightAmounts {
  readonly requests: number
  readonly reserved: number
  /** Those of them whose reservations grow while their streams pass. */
  readonly growing: { readonly requests: number; readonly reserved: number }
}

/** Events of the last hour, oldest first. */
export interface RecentEventsJson {
  /** Begin of the time that the list covers. */
  readonly since: Time
  /** False if events since then are missing: there was no room for them, or there were more than asked for. */
  readonly complete: boolean
  readonly events: readonly EventJson[]
}

/** A line of the log. Its other fields depend on the event. */
export interface EventJson {
  readonly event: string
  readonly time: Time
  readonly [field: string]: unknown
}

/** The last changes, newest first. */
export interface ChangesJson {
  /** Begin of the time that the list covers. Overrides from before the start of the process are older. */
  readonly since: Time
  /** False if changes since then are missing: there was no room for them, or there were more than asked for. */
  readonly complete: boolean
  readonly changes: readonly ChangeJson[]
}

/** Who changed what, and why. What a change does not have is null. */
export interface ChangeJson {
  readonly time: Time
  /** Name of the log event that reports it. */
  readonly change:
    | 'bundle_applied'
    | 'bundle_refused'
    | 'bundle_text_read'
    | 'override_set'
    | 'override_edited'
    | 'override_ended'
    | 'counter_reset'
    | 'backend_retried'
    | 'key_created'
    | 'key_changed'
    | 'key_revoked'
  /** Null for bundles that nobody has announced: only their source is known. */
  readonly actor: string | null
  readonly reason: string | null
  /** Null if all policies are affected. */
  readonly policy: string | null
  readonly rule: string | null
  /** Null if all callers are affected. Credentials are digests. Of an issued key, its labels. */
  readonly values: CallerValues | null
  /** Version of the bundle, or effect of the override, before and after. */
  readonly before: string | null
  readonly after: string | null
  /** End of the override or of the key. */
  readonly until: Time | null
  /** Id of the override or of the key, or version of the bundle that was read. */
  readonly id: string | null
  /** Path or URL of the bundle. */
  readonly source: string | null
  readonly detail: string | null
}
