import type { Cost } from '../costs/cost.ts'
import type { LlmSettings } from '../llm/llm-request.ts'
import type { Block, PlanCounter } from './algorithms/compiled-rule.ts'
import type { DescriptorKey } from './descriptor-key.ts'
import type { DomainIndex } from './index/domain-index.ts'
import type { RouteIndex } from './index/routes.ts'
import type { PathPrefixes, Patterns } from './patterns.ts'
import type { Rule, Selector } from './schema/bundle.ts'

/** A bundle compiled for speed: all that does not depend on the request is computed once. Frozen. */
export interface Plan {
  /** As an integer, even if the bundle has a string. */
  readonly version: bigint
  readonly policies: readonly PlanPolicy[]
  readonly policiesById: ReadonlyMap<string, PlanPolicy>
  /** The policies for requests. */
  readonly routes: RouteIndex<PlanPolicy>
  /** Those for calls of the rate limit service. */
  readonly domains: DomainIndex<PlanRule>
  /** Every descriptor key of the bundle, once; rules refer to them by index. */
  readonly keys: readonly DescriptorKey[]
  /** Every counter of the bundle. */
  readonly counters: readonly PlanCounter[]
  /** Whether a rule needs the body. */
  readonly needsBody: boolean
  /** Whether the cost of a rule is settled at the end of the request. */
  readonly hasSettledCosts: boolean
  /** Whether an enforcing policy has a block. */
  readonly hasBlocks: boolean
  /** Whether one of them ends streams under way. */
  readonly cutsStreams: boolean
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
  /** As written, to explain why it does not match. */
  readonly selector: Selector
  /** What it does not cover in spite of its selector's path. */
  readonly exceptPaths: PathPrefixes | undefined
  readonly rules: readonly PlanRule[]
  /** The limit keys of all its rules, each once. */
  readonly keyIndexes: readonly number[]
  /** All its rules limit, and each applies wherever its limit keys have values. */
  readonly isPlain: boolean
  readonly hasBlocks: boolean
  readonly needsBody: boolean
}

export interface PlanRule {
  readonly policy: PlanPolicy
  readonly name: string
  /** As written. */
  readonly source: Rule
  readonly limitKeys: readonly string[]
  readonly keyIndexes: readonly number[]
  /** All must hold for the rule to apply. Undefined where it has no `match`, or `match: else`. */
  readonly match: readonly PlanMatch[] | undefined
  /** It applies where no other rule of its policy with a `match` does. */
  readonly isElse: boolean
  /** Undefined unless it rejects all it covers. Such rules have no counters, and neither have those that limit nothing. */
  readonly block: Block | undefined
  readonly counters: readonly PlanCounter[]
  /** What a request takes from each counter. */
  readonly cost: Cost
  /** Whether its cost, or a value of its match or limit keys, is in the body. */
  readonly needsBody: boolean
  /** The settings of a token_bucket_llm rule. */
  readonly llm: LlmSettings | undefined
  /** Streams that it counts are asked for the provider's count. */
  readonly asksUsage: boolean
  /** The rule of the bundle whose limits an override has changed to these; undefined: it is a rule of the bundle. */
  readonly variantOf: PlanRule | undefined
}

export interface PlanMatch {
  readonly keyIndex: number
  readonly patterns: Patterns
}

/** The active bundle, as /readyz and the metrics report it. */
export interface BundleInfo {
  readonly version: string
  /** Lower-case hex sha256 of the bytes. */
  readonly hash: string
  readonly updatedAtS: number
}
