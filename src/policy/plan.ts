import type { Cost } from '../costs/cost.ts'
import type { Limit } from '../limiter/limit.ts'
import type { LlmSettings } from '../llm/llm-settings.ts'
import type { DescriptorKey } from './descriptor-key.ts'
import type { RouteIndex } from './routes.ts'
import type { Selector } from './schema.ts'

/** A bundle compiled for speed: what each request needs, worked out once. Never changed after it was built. */
export interface Plan {
  /** As an integer, whatever way the bundle wrote it. */
  readonly version: bigint
  readonly policies: readonly PlanPolicy[]
  /** For whoever asks for a policy by its id. */
  readonly policiesById: ReadonlyMap<string, PlanPolicy>
  readonly routes: RouteIndex<PlanPolicy>
  /** Every descriptor key of the bundle, once; rules name them by position. */
  readonly keys: readonly DescriptorKey[]
  /** Every counter of the bundle; a rule names its own by position. */
  readonly counters: readonly PlanCounter[]
  /** Whether a rule must know the body to say what it takes. */
  readonly needsBody: boolean
  /** Whether a rule may hold what it took until the request is over. */
  readonly hasSettledCosts: boolean
}

export interface PlanPolicy {
  readonly index: number
  readonly id: string
  /** The id as a structured-field string (RFC 9651 3.3.3), for the RateLimit header. */
  readonly quotedId: string
  readonly mode: 'enforce' | 'shadow'
  readonly isShadow: boolean
  /** The selector's path as written: a label of bounded variety. */
  readonly route: string
  /** As written, for whoever asks why it does not match. */
  readonly selector: Selector
  readonly rules: readonly PlanRule[]
  /** The keys of all its rules, each once. */
  readonly keyIndexes: readonly number[]
  readonly needsBody: boolean
}

export interface PlanRule {
  readonly policy: PlanPolicy
  readonly name: string
  readonly limitKeys: readonly string[]
  readonly keyIndexes: readonly number[]
  readonly counters: readonly PlanCounter[]
  /** What a request takes from each counter. */
  readonly cost: Cost
  /** What the stream filter of a token_bucket_llm rule goes by. */
  readonly llm: LlmSettings | undefined
}

export interface PlanCounter {
  readonly index: number
  /** Policy id, rule name, mode, algorithm, limit_keys and part, as text: it survives a reload that keeps them. */
  readonly identity: readonly string[]
  /** Which of its rule's counters it is. */
  readonly part: 'bucket' | 'minute' | 'day'
  readonly limit: Limit
  /** Whether tokens may be pre-fetched: the rule's cost says so. */
  readonly isLeasable: boolean
  /** The most that the limit can ever hand out at one moment. */
  readonly size: number
  readonly reason: LimitReason
  /** The RateLimit-Limit header's value. */
  readonly limitText: string
}

export type LimitReason = 'token_bucket_exceeded' | 'tpm_exceeded' | 'tpd_exceeded'
