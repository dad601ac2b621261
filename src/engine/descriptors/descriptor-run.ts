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

/** Which rules cover which descriptors of one call, and the results. It is reused for other calls. */
export class DescriptorRun implements Concluding {
  call: LimitCall = NO_CALL
  active: ActivePlan | undefined
  nowMs = 0
  wallMs = 0
  /** Whether an override puts all policies in shadow mode. */
  isShadowed = false
  #overrides: OverrideIndex | undefined
  /** The charges of enforcing rules. */
  readonly group = new MergedGroup()
  /** The hits that are given back, to rules of all policies. */
  readonly givenBack = new MergedGroup()
  limit: RateLimit | undefined
  wouldRejects: readonly WouldReject[] = NONE
  /** The policies of the domain. */
  readonly matches: { list: readonly PlanPolicy[] } = { list: NONE }
  // A descriptor that a rule covers lacks no keys, and nothing in a call is settled later.
  readonly missingKeys = NONE
  readonly reserved = NONE
  readonly holds = NONE
  // Calls name descriptors, not callers.
  readonly caller = undefined
  readonly wouldRefuse = undefined
  /** Number of entries in each of the four lists below that belong to this call. */
  #count = 0
  /** Pairs of a descriptor and a rule that covers it, by descriptor and then in bundle order. */
  readonly #descriptors: number[] = []
  readonly #coverings: KeySetRule<PlanRule>[] = []
  /** The rule under the override in force for the descriptor, if there is one. */
  readonly #variants: (Variant | undefined)[] = []
  /** Index of the charge in its group; -1 if nothing is charged. */
  readonly #entries: number[] = []
  /** Scratch lists for one descriptor: its rules, and the entries of those that enforce. */
  readonly #found: KeySetRule<PlanRule>[] = []
  readonly #charged: number[] = []
  /** Values of the rule looked up last, reused. */
  readonly #subject: string[] = []
  readonly #matched = new Set<PlanPolicy>()

  /** Finds the rules that cover the call's descriptors. */
  begin(call: LimitCall, active: ActivePlan, nowMs: number, wallMs: number): void {
    this.call = call
    this.active = active
    this.nowMs = nowMs
    this.wallMs = wallMs
    const { index } = active.overrides
    this.#overrides = index
    this.isShadowed = index?.isShadowed(nowMs) ?? false
    const domain = active.plan.domains.get(call.domain)
    this.matches.list = domain?.policies ?? NONE
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

  /** Always empty, because debug sessions ask only about requests. */
  keyedBy(): readonly Descriptor[] {
    return NONE
  }

  /** Returns the first block, of the given policy or of any enforcing one, that covers a descriptor that is not given back. */
  findBlock(policy?: PlanPolicy): PlanRule | undefined {
    for (let i = 0; i < this.#count; i++) if (this.#isBlocked(i, policy)) return this.#coverings[i]!.rule
    return undefined
  }

  /** Returns the values, by limit key, of the caller that a block of an enforcing policy covers. */
  blockedValues(): readonly string[] {
    for (let i = 0; i < this.#count; i++) {
      if (!this.#isBlocked(i, undefined)) continue
      const { values } = this.call.descriptors[this.#descriptors[i]!]!
      return this.#coverings[i]!.limitKeys.map((position) => values[position]!)
    }
    return NONE
  }

  /** Charges the descriptors to the rules of the given policy, or of all enforcing ones. */
  charge(group: MergedGroup, policy?: PlanPolicy): void {
    for (let i = 0; i < this.#count; i++) {
      const rule = this.#ruleAt(i)
      if (rule.counters.length > 0 && isOf(rule, policy) && !this.#isGivenBack(i)) this.#add(group, i)
    }
  }

  /** Charges what is to be given back, and returns whether there is anything. */
  chargeGivenBack(): boolean {
    for (let i = 0; i < this.#count; i++) {
      if (this.#isGivenBack(i) && this.#ruleAt(i).counters.length > 0) this.#add(this.givenBack, i)
    }
    return this.givenBack.ruleCount > 0
  }

  /** Called when the hits could not be given back, so that nothing is known of their limits. */
  forgetGivenBack(): void {
    for (let i = 0; i < this.#count; i++) if (this.#isGivenBack(i)) this.#entries[i] = -1
  }

  /** Returns the policies that cover a descriptor but must not change a response, in bundle order. */
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

  /** Returns the statuses by what was taken and given back. Shadow policies do not affect them. */
  statuses(): DescriptorStatus[] {
    return this.#statusesBy((from, to) => this.#status(from, to))
  }

  /** Returns the statuses of a call that a block rejected, for which no other limit was looked at. */
  blockedStatuses(): DescriptorStatus[] {
    return this.#statusesBy((from, to) => {
      for (let i = from; i < to; i++) if (this.#isBlocked(i, undefined)) return blockedStatus(this.#coverings[i]!.rule)
      return NO_LIMIT
    })
  }

  /** Adds those of the rules found for the descriptor that apply. An `else` applies if no other rule of its policy with a match does. */
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

  /** If a rule that was found is an `else`, notes the policies in which a rule with a match applies. Returns whether there is an `else`. */
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

  /** An expired block covers nobody. */
  #isOver({ block }: PlanRule): boolean {
    return block !== undefined && block.expiresAtMs <= this.wallMs
  }

  /** Returns the rule as it is in force. */
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

  /** Relies on the pairs of a descriptor being consecutive in the lists. */
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

/** Whether the rule belongs to the policy or, if none is given, to any enforcing one. */
function isOf({ policy: own }: PlanRule, policy: PlanPolicy | undefined): boolean {
  return policy === undefined ? !own.isShadow : own === policy
}
