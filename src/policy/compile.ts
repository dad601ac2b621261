import { GIVEN } from '../costs/given.ts'
import { LlmReservation } from '../costs/llm-reservation.ts'
import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { calendarOf } from '../limiter/calendar.ts'
import { BUCKET, type Limit, WINDOW } from '../limiter/limit.ts'
import type { LlmSettings } from '../llm/llm-settings.ts'
import { type DescriptorKey, parseDescriptorKey } from './descriptor-key.ts'
import type { LimitReason, Plan, PlanCounter, PlanPolicy, PlanRule } from './plan.ts'
import { RouteIndex } from './routes.ts'
import type { Bundle, LlmConfig, Policy, Rule } from './schema.ts'

/** Turns a valid bundle into a plan. */
export function compileBundle(bundle: Bundle): Plan {
  const builder = new PlanBuilder(bundle.bundle_version)
  for (const policy of bundle.policies) builder.add(policy)
  return builder.build()
}

/** Builds a plan policy by policy, for callers that must not block for a whole bundle. */
export class PlanBuilder {
  readonly #version: bigint
  readonly #routes = new RouteIndex<PlanPolicy>()
  readonly #parts = new PlanParts()
  readonly #policies: PlanPolicy[] = []

  constructor(version: Bundle['bundle_version']) {
    this.#version = BigInt(version)
  }

  add(policy: Policy): void {
    const planned = compilePolicy(policy, this.#policies.length, this.#parts)
    this.#routes.add(planned, policy.spec.selector ?? {})
    this.#policies.push(planned)
  }

  build(): Plan {
    const { keys, counters } = this.#parts
    return Object.freeze({
      version: this.#version,
      policies: this.#policies,
      policiesById: new Map(this.#policies.map((policy) => [policy.id, policy])),
      routes: this.#routes,
      keys,
      counters,
      needsBody: this.#policies.some((policy) => policy.needsBody),
      hasSettledCosts: this.#policies.some(({ rules }) => rules.some(({ cost }) => cost.settling !== undefined)),
    })
  }
}

/** A counter's limit, and its identity as one string. */
export interface NamedLimit {
  readonly name: string
  readonly limit: Limit
}

/** The limits of all counters of a bundle, in the order of its plan, without building the plan. */
export function namedLimitsOf({ policies }: Bundle): NamedLimit[] {
  return policies.flatMap((policy) => {
    const parts = new PlanParts()
    compilePolicy(policy, 0, parts)
    return namedLimits(parts.counters)
  })
}

export function namedLimits(counters: readonly PlanCounter[]): NamedLimit[] {
  return counters.map((counter) => ({ name: identityName(counter), limit: counter.limit }))
}

export function identityName(counter: PlanCounter): string {
  return JSON.stringify(counter.identity)
}

/** The lists that rules refer to by index. */
class PlanParts {
  readonly keys: DescriptorKey[] = []
  readonly counters: PlanCounter[] = []
  readonly #keyIndexes = new Map<string, number>()

  keyIndex(key: DescriptorKey): number {
    let index = this.#keyIndexes.get(key.text)
    if (index === undefined) {
      index = this.keys.push(key) - 1
      this.#keyIndexes.set(key.text, index)
    }
    return index
  }

  addCounter(identity: readonly string[], { part, limit, reason }: PartLimit, isLeasable: boolean): PlanCounter {
    const size = algorithmOf(limit).size(limit)
    const counter = Object.freeze({
      index: this.counters.length,
      identity: [...identity, part],
      part,
      limit: Object.freeze(limit),
      size,
      isLeasable,
      reason,
      limitText: String(Math.floor(size)),
    })
    this.counters.push(counter)
    return counter
  }
}

function compilePolicy(policy: Policy, index: number, parts: PlanParts): PlanPolicy {
  const { mode, selector = {} } = policy.spec
  const rules: PlanRule[] = []
  const keyIndexes: number[] = []
  const planned = {
    index,
    id: policy.id,
    quotedId: `"${policy.id.replace(/["\\]/g, '\\$&')}"`,
    mode,
    isShadow: mode === 'shadow',
    route: selector.pathExact ?? selector.pathPrefix ?? '/',
    selector,
    rules,
    keyIndexes,
    needsBody: false,
  }
  for (const rule of policy.spec.rules) rules.push(compileRule(rule, planned, parts))
  for (const index of new Set(rules.flatMap((rule) => rule.keyIndexes))) keyIndexes.push(index)
  planned.needsBody = rules.some(({ cost }) => cost.needsBody)
  return Object.freeze(planned)
}

function compileRule(rule: Rule, policy: PlanPolicy, parts: PlanParts): PlanRule {
  const keys = rule.limit_keys.map((text) => parseDescriptorKey(text)!)
  const limitKeys = keys.map((key) => key.text)
  const identity = [policy.id, rule.name, policy.mode, rule.algorithm, ...limitKeys]
  const llm = rule.algorithm === 'token_bucket_llm' ? llmSettings(rule.algorithm_config) : undefined
  const cost = llm === undefined ? GIVEN : new LlmReservation(llm)
  return Object.freeze({
    policy,
    name: rule.name,
    limitKeys,
    keyIndexes: keys.map((key) => parts.keyIndex(key)),
    counters: limitsOf(rule).map((limit) => parts.addCounter(identity, limit, cost.isLeasable)),
    cost,
    llm,
  })
}

function llmSettings(config: LlmConfig): LlmSettings {
  const { streaming } = config
  return Object.freeze({
    maxCompletionTokens: config.max_completion_tokens,
    streaming: Object.freeze({
      enabled: streaming.enabled,
      enforceMidStream: streaming.enforce_mid_stream,
      bufferTokens: streaming.buffer_tokens,
      onLimitExceeded: streaming.on_limit_exceeded,
      includePartialUsage: streaming.include_partial_usage,
    }),
  })
}

interface PartLimit {
  readonly part: PlanCounter['part']
  readonly limit: Limit
  readonly reason: LimitReason
}

/** The minute comes first: if it cannot cover a request, it is the reason, even if the day cannot either. */
function limitsOf(rule: Rule): PartLimit[] {
  if (rule.algorithm === 'token_bucket') {
    const { tokens_per_second, burst } = rule.algorithm_config
    return [{ part: 'bucket', limit: { kind: BUCKET, tokensPerMs: tokens_per_second / 1000, burst }, reason: 'token_bucket_exceeded' }]
  }
  const { tokens_per_minute, tokens_per_day, burst_tokens } = rule.algorithm_config
  const limits: PartLimit[] = []
  if (tokens_per_minute !== undefined) {
    const limit: Limit = { kind: BUCKET, tokensPerMs: tokens_per_minute / 60_000, burst: burst_tokens ?? tokens_per_minute }
    limits.push({ part: 'minute', limit, reason: 'tpm_exceeded' })
  }
  if (tokens_per_day !== undefined) {
    limits.push({ part: 'day', limit: { kind: WINDOW, tokens: tokens_per_day, calendar: calendarOf('1d', 'UTC') }, reason: 'tpd_exceeded' })
  }
  return limits
}
