import type { Cost } from '../costs/cost.ts'
import type { LlmSettings } from '../llm/llm-request.ts'
import type { Block, PlanCounter } from './algorithms/compiled-rule.ts'
import type { DescriptorKey } from './descriptor-key.ts'
import type { DomainIndex } from './index/domain-index.ts'
import type { RouteIndex } from './index/routes.ts'
import type { PathPrefixes, Patterns } from './patterns.ts'
import type { Routing } from './routes/routing.ts'
import type { Rule } from './schema/bundle.ts'
import type { Callers } from './schema/callers.ts'
import type { Selector } from './schema/selector.ts'

/** A bundle compiled for speed: everything that does not depend on a request is computed once. A plan is frozen. */
export interface Plan {
  /** An integer, even if the bundle has a string. */
  readonly version: bigint
  readonly policies: readonly PlanPolicy[]
  readonly policiesById: ReadonlyMap<string, PlanPolicy>
  /** The policies that cover requests. */
  readonly routes: RouteIndex<PlanPolicy>
  /** The rules that cover calls of the rate limit service. */
  readonly domains: DomainIndex<PlanRule, PlanPolicy>
  /** Every descriptor key of the bundle, once; rules, routes and usage labels refer to them by index. */
  readonly keys: readonly DescriptorKey[]
  /** Those of them that rules and routes read. */
  readonly decidingKeys: readonly DescriptorKey[]
  /** Indexes of the keys whose values the usage log and budget warnings contain. */
  readonly usageLabels: readonly number[]
  /** Who is known; undefined if the bundle does not say. */
  readonly callers: PlanCallers | undefined
  /** Which requests go to which backends, in reverse_proxy; undefined if the bundle has no routes. */
  readonly routing: Routing | undefined
  /** Every counter of the bundle. */
  readonly counters: readonly PlanCounter[]
  /** Whether any rule needs the body. */
  readonly needsBody: boolean
  /** Whether the cost of any rule is settled. */
  readonly hasSettledCosts: boolean
  /** Whether a request may wait for any rule. */
  readonly hasWaits: boolean
  /** Whether any enforcing policy that covers requests has a block. */
  readonly hasBlocks: boolean
  /** Whether any of these blocks ends streams that are already open. */
  readonly cutsStreams: boolean
}

export interface PlanCallers {
  /** The section as the bundle has it. */
  readonly source: Callers
  readonly mode: Callers['mode']
  /** Paths that need no verified caller. */
  readonly exceptPaths: PathPrefixes | undefined
  /** Whether CORS preflights need no verified caller. */
  readonly exceptsPreflights: boolean
  /** Whether `jwt:` keys read the claims of verified tokens only. */
  readonly verifiesTokens: boolean
  /** The fields in which credentials of callers are, in lower case. */
  readonly credentialFields: readonly string[]
}

export interface PlanPolicy {
  readonly index: number
  readonly id: string
  /** The id as a structured-field string (RFC 9651 3.3.3), for the RateLimit header. */
  readonly quotedId: string
  readonly mode: 'enforce' | 'shadow'
  readonly isShadow: boolean
  /** The selector's path, or its domain, as written: a metric label with few values. */
  readonly route: string
  /** The selector as written, to explain why it does not match. */
  readonly selector: Selector
  /** Paths that the policy does not cover, although its selector's path would. */
  readonly exceptPaths: PathPrefixes | undefined
  readonly rules: readonly PlanRule[]
  /** The limit keys of all its rules, each once. */
  readonly keyIndexes: readonly number[]
  /** Whether every rule has counters, and applies to all requests that have values for its limit keys. */
  readonly isPlain: boolean
  readonly hasBlocks: boolean
  readonly needsBody: boolean
}

export interface PlanRule {
  readonly policy: PlanPolicy
  readonly name: string
  /** The rule as the bundle has it, or as an override changes it. */
  readonly source: Rule
  readonly limitKeys: readonly string[]
  readonly keyIndexes: readonly number[]
  /** Conditions that must all hold for the rule to apply; undefined if it has no `match`, or `match: else`. */
  readonly match: readonly PlanMatch[] | undefined
  /** Whether the rule applies only where no other rule of its policy with a `match` does. */
  readonly isElse: boolean
  /** Set if the rule rejects every request it covers. Such a rule has no counters; neither has one that limits nothing. */
  readonly block: Block | undefined
  readonly counters: readonly PlanCounter[]
  /** The cost that a request takes from each counter. */
  readonly cost: Cost
  /** Whether the rule's cost, or a value of its match or limit keys, is in the body. */
  readonly needsBody: boolean
  /** The settings of a rule that watches streams: token_bucket_llm, and cost_budget with `reserve`. */
  readonly llm: LlmSettings | undefined
  /** Whether the proxy asks the provider to report the usage of the streams that this rule counts. */
  readonly asksUsage: boolean
  /** Whether WebSockets are refused where the rule applies, because it would count nothing in them. */
  readonly refusesSockets: boolean
  /** How long a request that the rule rejects may wait in `reverse_proxy`; 0 if it is rejected at once. */
  readonly maxWaitMs: number
  /** The rule of the bundle that this one is a variant of; undefined if this is the rule of the bundle itself. */
  readonly variantOf: PlanRule | undefined
}

export interface PlanMatch {
  readonly keyIndex: number
  readonly patterns: Patterns
}

/** The active bundle, as /readyz and the metrics report it. */
export interface BundleInfo {
  readonly version: string
  /** SHA-256 of the bundle's bytes, in lower-case hex. */
  readonly hash: string
  readonly updatedAtS: number
}
