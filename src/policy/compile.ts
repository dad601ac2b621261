import type { Cost } from '../costs/cost.ts'
import { GIVEN, HOLD, NOTHING } from '../costs/request-costs.ts'
import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { canOverdraw, type Limit } from '../limiter/limit.ts'
import { compileBlock } from './algorithms/block.ts'
import type { CompiledRule, PartLimit, PlanCounter } from './algorithms/compiled-rule.ts'
import { compileCostBudget, PriceTables } from './algorithms/cost-budget.ts'
import { compileFixedWindow } from './algorithms/fixed-window.ts'
import { compileTokenBucket } from './algorithms/token-bucket.ts'
import { compileTokenBucketLlm } from './algorithms/token-bucket-llm.ts'
import { type DescriptorKey, isInBody, parseDescriptorKey } from './descriptor-key.ts'
import { DomainIndex } from './index/domain-index.ts'
import { RouteIndex } from './index/routes.ts'
import { PathPrefixes } from './patterns.ts'
import type { Plan, PlanCallers, PlanPolicy, PlanRule } from './plan.ts'
import { quotaText } from './quota-text.ts'
import { Routing } from './routes/routing.ts'
import { ruleLimits } from './rule-limits.ts'
import { compileMatch } from './rule-match.ts'
import type { Bundle, Policy, Rule } from './schema/bundle.ts'
import type { Callers } from './schema/callers.ts'

/** Turns a valid bundle into a plan. */
export function compileBundle(bundle: Bundle): Plan {
  const builder = new PlanBuilder(bundle.bundle_version, bundle.prices, bundle.callers, bundle, bundle.usage)
  for (const policy of bundle.policies) builder.add(policy)
  return builder.build()
}

/** Builds a plan policy by policy, for callers that must not block for a whole bundle. */
export class PlanBuilder {
  readonly #version: bigint
  readonly #routes = new RouteIndex<PlanPolicy>()
  readonly #domains = new DomainIndex<PlanRule, PlanPolicy>()
  readonly #parts: PlanParts
  readonly #policies: PlanPolicy[] = []
  readonly #callers: PlanCallers | undefined
  readonly #routing: Pick<Bundle, 'backends' | 'routes'>
  readonly #usage: Bundle['usage']

  /** `statesQuotas` says whether clients are told of whole limits in RateLimit-Policy. */
  constructor(
    version: Bundle['bundle_version'],
    prices: Bundle['prices'],
    callers: Bundle['callers'],
    routing: Pick<Bundle, 'backends' | 'routes'>,
    usage: Bundle['usage'],
    statesQuotas = false,
  ) {
    this.#version = BigInt(version)
    this.#callers = callers && compileCallers(callers)
    this.#routing = routing
    this.#usage = usage
    this.#parts = new PlanParts(new PriceTables(prices), statesQuotas)
  }

  add(policy: Policy): void {
    const planned = compilePolicy(policy, this.#policies.length, this.#parts)
    if (planned.selector.domain === undefined) this.#routes.add(planned, planned.selector)
    else this.#domains.add(policy.spec, planned)
    this.#policies.push(planned)
  }

  build(): Plan {
    const { keys, counters } = this.#parts
    const blocks = this.#policies
      .flatMap(({ isShadow, hasBlocks, selector, rules }) => (hasBlocks && !isShadow && selector.domain === undefined ? rules : []))
      .map(({ block }) => block)
    const routing = this.#routing.routes && new Routing(this.#routing, (key) => this.#parts.keyIndex(key))
    const decidingKeys = [...keys]
    const usageLabels = (this.#usage?.labels ?? []).map((text) => this.#parts.keyIndex(parseDescriptorKey(text)!))
    return Object.freeze({
      version: this.#version,
      policies: this.#policies,
      policiesById: new Map(this.#policies.map((policy) => [policy.id, policy])),
      routes: this.#routes,
      domains: this.#domains,
      keys,
      decidingKeys,
      usageLabels,
      callers: this.#callers,
      routing,
      counters,
      needsBody: this.#policies.some((policy) => policy.needsBody),
      hasSettledCosts: this.#policies.some(({ rules }) => rules.some(({ cost }) => cost.settling !== undefined)),
      hasWaits: this.#policies.some(({ isShadow, rules }) => !isShadow && rules.some(({ maxWaitMs }) => maxWaitMs > 0)),
      hasBlocks: blocks.length > 0,
      cutsStreams: blocks.some((block) => block?.cutsStreams),
    })
  }
}

/** A counter's limit, and its identity as one string. */
export interface NamedLimit {
  readonly name: string
  readonly limit: Limit
}

/** Returns the limits of all counters of a bundle, in the order of its plan, without building the plan. */
export function namedLimitsOf({ policies, prices }: Bundle): NamedLimit[] {
  const tables = new PriceTables(prices)
  return policies.flatMap((policy) => {
    const parts = new PlanParts(tables, false)
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
  readonly prices: PriceTables
  readonly #statesQuotas: boolean
  readonly #keyIndexes = new Map<string, number>()

  constructor(prices: PriceTables, statesQuotas: boolean) {
    this.prices = prices
    this.#statesQuotas = statesQuotas
  }

  keyIndex(key: DescriptorKey): number {
    let index = this.#keyIndexes.get(key.text)
    if (index === undefined) {
      index = this.keys.push(key) - 1
      this.#keyIndexes.set(key.text, index)
    }
    return index
  }

  /** `isCorrected` says that takes are corrected later, even if the cost is not settled. */
  addCounter(
    identity: readonly string[],
    { part, limit, reason, identity: own = [], unit = 1 }: PartLimit,
    cost: Cost,
    isCorrected = false,
  ): PlanCounter {
    const size = algorithmOf(limit).size(limit)
    const limitText = String(Math.floor(size / unit))
    const counter = Object.freeze({
      index: this.counters.length,
      identity: [...identity, ...own, part],
      part,
      limit: Object.freeze(limit),
      size,
      isLeasable: cost.isLeasable,
      isSettled: cost.settling !== undefined || isCorrected,
      unit,
      reason,
      limitText,
      quotaText: this.#statesQuotas ? quotaText(limit, limitText) : undefined,
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
    route: selector.domain ?? selector.pathExact ?? selector.pathPrefix ?? '/',
    selector,
    exceptPaths: selector.exceptPaths && new PathPrefixes(selector.exceptPaths),
    rules,
    keyIndexes,
    isPlain: false,
    hasBlocks: false,
    needsBody: false,
  }
  for (const rule of policy.spec.rules) rules.push(compileRule(rule, planned, parts))
  for (const index of new Set(rules.flatMap((rule) => rule.keyIndexes))) keyIndexes.push(index)
  planned.isPlain = rules.every(isPlain)
  planned.hasBlocks = rules.some(({ block }) => block !== undefined)
  planned.needsBody = rules.some(({ needsBody }) => needsBody)
  return Object.freeze(planned)
}

function compileRule(rule: Rule, policy: PlanPolicy, parts: PlanParts): PlanRule {
  const keys = rule.limit_keys.map((text) => parseDescriptorKey(text)!)
  const limitKeys = keys.map((key) => key.text)
  const matched = rule.match === undefined || rule.match === 'else' ? undefined : compileMatch(rule.match)
  // `match` is not part of the identity, so changing whom a rule applies to does not lose counts.
  const identity = [policy.id, rule.name, policy.mode, rule.algorithm, ...limitKeys]
  const compiled = compileAlgorithm(rule, parts.prices)
  const isInDomain = policy.selector.domain !== undefined
  // Calls of the rate limit service say how many hits they take.
  const {
    cost,
    llm,
    asksUsage = false,
    refusesSockets = false,
    block,
  }: CompiledRule = isInDomain ? { cost: GIVEN, block: compiled.block } : compiled
  return Object.freeze({
    policy,
    name: rule.name,
    source: rule,
    limitKeys,
    keyIndexes: keys.map((key) => parts.keyIndex(key)),
    match: matched?.map(({ key, patterns }) => ({ keyIndex: parts.keyIndex(key), patterns })),
    isElse: rule.match === 'else',
    block,
    counters: ruleLimits(rule, isInDomain).map((part) => parts.addCounter(identity, part, cost, isInDomain && canOverdraw(part.limit))),
    cost,
    needsBody: cost.needsBody || keys.some(isInBody) || (matched?.some(({ key }) => isInBody(key)) ?? false),
    llm,
    asksUsage,
    refusesSockets,
    maxWaitMs: (rule.wait_seconds ?? 0) * 1000,
    variantOf: undefined,
  })
}

function compileCallers(source: Callers): PlanCallers {
  const { mode, except_paths: paths, except_preflights: exceptsPreflights = false, jwt, keys } = source
  const fields = (keys?.from ?? []).filter((place) => place !== 'bearer').map((place) => place.slice('header:'.length).toLowerCase())
  return Object.freeze({
    source,
    mode,
    exceptPaths: paths && new PathPrefixes(paths),
    exceptsPreflights,
    verifiesTokens: jwt !== undefined,
    credentialFields: ['authorization', ...fields],
  })
}

function isPlain({ match, isElse, counters }: PlanRule): boolean {
  return match === undefined && !isElse && counters.length > 0
}

function compileAlgorithm(rule: Rule, prices: PriceTables): CompiledRule {
  switch (rule.algorithm) {
    case 'token_bucket':
      return compileTokenBucket(rule.algorithm_config)
    case 'fixed_window':
      return compileFixedWindow(rule.algorithm_config)
    case 'token_bucket_llm':
      return compileTokenBucketLlm(rule.algorithm_config)
    case 'unlimited':
      return { cost: NOTHING }
    case 'block':
      return compileBlock(rule.algorithm_config)
    case 'concurrency':
      return { cost: HOLD }
    case 'cost_budget':
      return compileCostBudget(rule.algorithm_config, prices)
  }
}
