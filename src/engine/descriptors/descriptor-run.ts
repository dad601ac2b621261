import type { KeySetRule } from '../../policy/index/domain-index.ts'
import type { PlanPolicy, PlanRule } from '../../policy/plan.ts'
import type { ActivePlan } from '../active-plan.ts'
import type { Concluding } from '../conclusion.ts'
import type { Descriptor, RateLimit, WouldReject } from '../decision.ts'
import type { OverrideIndex } from '../overrides/override-index.ts'
import type { Variant } from '../overrides/rule-overrides.ts'
import type { DescriptorStatus, LimitCall } from './descriptor-call.ts'
import { blockedStatus, MergedGroup, NO_LIMIT, UNLIMITED, worstStatus } from './descriptor-status.ts'

const NONE: readonly never[] = Object.freeze([])
const NO_CALL: LimitCall = { domain: '', descriptors: NONE }

/** Which rules cover which descriptors of one call, and what comes of it. Used again for others. */
export class LimitRun implements Concluding {
  call: LimitCall = NO_CALL
  active: ActivePlan | undefined
  nowMs = 0
  wallMs = 0
  /** Whether an override has all policies in shadow mode. */
  isShadowed = false
  #overrides: OverrideIndex | undefined
  /** What enforcing rules take. */
  readonly group = new MergedGroup()
  /** What is given back, to rules of all policies. */
  readonly givenBack = new MergedGroup()
  limit: RateLimit | undefined
  wouldRejects: readonly WouldReject[] = NONE
  /** Policies of the domain. */
  readonly matches = { count: 0 }
  // Nothing is missing in a descriptor that a rule covers, and nothing of a call is settled.
  readonly missingKeys = NONE
  readonly reserved = NONE
  readonly holds = NONE
  /** So many of the four lists below are of this call. */
  #count = 0
  /** The descriptors and rules that cover one another, by descriptor and then in bundle order. */
  readonly #descriptors: number[] = []
  readonly #coverings: KeySetRule<PlanRule>[] = []
  /** The rule under the override that is in force for the descriptor. */
  readonly #variants: (Variant | undefined)[] = []
  /** Where their charges are in their group; -1: nothing is charged. */
  readonly #entries: number[] = []
  /** Of one descriptor: its rules, and the entries of those that enforce. */
  readonly #found: KeySetRule<PlanRule>[] = []
  readonly #charged: number[] = []
  /** Of the rule that was looked at last. */
  readonly #subject: string[] = []
  readonly #matched = new Set<PlanPolicy>()

  /** Finds the rules. */
  begin(call: LimitCall, active: ActivePlan, nowMs: number, wallMs: number): void {
    this.call = call
    this.active = active
    this.nowMs = nowMs
    this.wallMs = wallMs
    const { index } = active.overrides
    this.#overrides = index
    this.isShadowed = index?.isShadowed(nowMs) ?? false
    const domain = active.plan.domains.get(call.domain)
    this.matches.count = domain?.policyCount ?? 0
    if (domain === undefined) return
    for (let d = 0; d < call.descriptors.length; d++) {
      const { names, values } = call.descriptors[d]!
      const rules = domain.find(names)
      if (rules !== undefined) this.#addApplying(d, rules.find(values, this.#found))
    }
  }

  /** Drops the call and all results. */
  end(): void {
    this.call = NO_CALL
    this.limit = undefined
    this.wouldRejects = NONE
    this.group.clear()
    this.givenBack.clear()
    this.#count = 0
  }

  /** Debug sessions ask about requests. */
  keyedBy(): readonly Descriptor[] {
    return NONE
  }

  /** The first block of the policy, or of any enforcing one, that covers a descriptor that is not given back. */
  findBlock(policy?: PlanPolicy): PlanRule | undefined {
    for (let i = 0; i < this.#count; i++) if (this.#isBlocked(i, policy)) return this.#coverings[i]!.rule
    return undefined
  }

  /** The values, by limit keys, of the caller that a block of an enforcing policy covers. */
  blockedValues(): readonly string[] {
    for (let i = 0; i < this.#count; i++) {
      if (!this.#isBlocked(i, undefined)) continue
      const { values } = this.call.descriptors[this.#descriptors[i]!]!
      return this.#coverings[i]!.limitKeys.map((position) => values[position]!)
    }
    return NONE
  }

  /** Charges the descriptors to the rules of the policy, or of all enforcing ones. */
  charge(group: MergedGroup, policy?: PlanPolicy): void {
    for (let i = 0; i < this.#count; i++) {
      const rule = this.#ruleAt(i)
      if (rule.counters.length > 0 && isOf(rule, policy) && !this.#isGivenBack(i)) this.#add(group, i)
    }
  }

  /** Whether there is anything to give back. */
  chargeGivenBack(): boolean {
    for (let i = 0; i < this.#count; i++) {
      if (this.#isGivenBack(i) && this.#ruleAt(i).counters.length > 0) this.#add(this.givenBack, i)
    }
    return this.givenBack.ruleCount > 0
  }

  /** It could not be given back, and nothing is known of its limits. */
  forgetGivenBack(): void {
    for (let i = 0; i < this.#count; i++) if (this.#isGivenBack(i)) this.#entries[i] = -1
  }

  /** Those that change no response and cover a descriptor, in bundle order. */
  shadowPolicies(): readonly PlanPolicy[] {
    let policies: Set<PlanPolicy> | undefined
    for (let i = 0; i < this.#count; i++) {
      const { policy } = this.#coverings[i]!.rule
      if (!policy.isShadow && !this.isShadowed) continue
      policies ??= new Set()
      policies.add(policy)
    }
    return policies === undefined ? NONE : [...policies].sort((a, b) => a.index - b.index)
  }

  /** By what was taken and given back. Shadow policies change none. */
  statuses(): DescriptorStatus[] {
    return this.#statusesBy((from, to) => this.#status(from, to))
  }

  /** Where a block has rejected the call: no other limit was looked at. */
  blockedStatuses(): DescriptorStatus[] {
    return this.#statusesBy((from, to) => {
      for (let i = from; i < to; i++) if (this.#isBlocked(i, undefined)) return blockedStatus(this.#coverings[i]!.rule)
      return NO_LIMIT
    })
  }

  /** Of the rules that were found for the descriptor, those that apply. An `else` does where no other rule of its policy with a match does. */
  #addApplying(descriptor: number, foundCount: number): void {
    const hasElse = this.#noteMatched(foundCount)
    for (let i = 0; i < foundCount; i++) {
      const covering = this.#found[i]!
      if (this.#isOver(covering.rule) || (covering.isElse && this.#matched.has(covering.rule.policy))) continue
      const at = this.#count++
      this.#descriptors[at] = descriptor
      this.#coverings[at] = covering
      this.#variants[at] = this.#overrides === undefined ? undefined : this.#variantOf(covering, descriptor)
      this.#entries[at] = -1
    }
    if (hasElse) this.#matched.clear()
  }

  #variantOf({ rule, limitKeys }: KeySetRule<PlanRule>, descriptor: number): Variant | undefined {
    const overrides = this.#overrides!.of(rule)
    const { values } = this.call.descriptors[descriptor]!
    for (let k = 0; k < limitKeys.length; k++) this.#subject[k] = values[limitKeys[k]!]!
    return overrides?.find(this.#subject, this.nowMs)
  }

  /** Notes the policies of which a rule with a match applies, where there is an `else` to know it. */
  #noteMatched(foundCount: number): boolean {
    const found = this.#found
    let hasElse = false
    for (let i = 0; i < foundCount && !hasElse; i++) hasElse = found[i]!.isElse
    for (let i = 0; hasElse && i < foundCount; i++) {
      const { isMatched, rule } = found[i]!
      if (isMatched && !this.#isOver(rule)) this.#matched.add(rule.policy)
    }
    return hasElse
  }

  /** A block that has expired covers nobody. */
  #isOver({ block }: PlanRule): boolean {
    return block !== undefined && block.expiresAtMs <= this.wallMs
  }

  /** The rule as it is in force. */
  #ruleAt(i: number): PlanRule {
    return this.#variants[i]?.rule ?? this.#coverings[i]!.rule
  }

  #isBlocked(i: number, policy: PlanPolicy | undefined): boolean {
    const rule = this.#ruleAt(i)
    return rule.block !== undefined && isOf(rule, policy) && !this.#isGivenBack(i)
  }

  #isGivenBack(i: number): boolean {
    return this.call.descriptors[this.#descriptors[i]!]!.isGivenBack
  }

  #add(group: MergedGroup, i: number): void {
    const { descriptors } = this.call
    const { values, hits } = descriptors[this.#descriptors[i]!]!
    this.#entries[i] = group.charge(this.#coverings[i]!, this.#variants[i], values, hits, this.active!, descriptors.length > 1)
  }

  #status(from: number, to: number): DescriptorStatus {
    let charged = 0
    let isUnlimited = false
    for (let i = from; i < to; i++) {
      const rule = this.#ruleAt(i)
      if (rule.policy.isShadow || this.isShadowed) continue
      if (this.#entries[i]! >= 0) this.#charged[charged++] = this.#entries[i]!
      else if (rule.counters.length === 0 && rule.block === undefined) isUnlimited = true
    }
    if (charged > 0) return worstStatus(this.#isGivenBack(from) ? this.givenBack : this.group, this.#charged, charged)
    return isUnlimited ? UNLIMITED : NO_LIMIT
  }

  /** The rules of each descriptor follow each other in the lists. */
  #statusesBy(statusOf: (from: number, to: number) => DescriptorStatus): DescriptorStatus[] {
    const count = this.call.descriptors.length
    const statuses = new Array<DescriptorStatus>(count)
    let to = 0
    for (let d = 0; d < count; d++) {
      const from = to
      while (to < this.#count && this.#descriptors[to] === d) to++
      statuses[d] = statusOf(from, to)
    }
    return statuses
  }
}

/** Without a policy: of any enforcing one. */
function isOf({ policy: own }: PlanRule, policy: PlanPolicy | undefined): boolean {
  return policy === undefined ? !own.isShadow : own === policy
}
