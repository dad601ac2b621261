import type { RequestFacts } from '../costs/cost.ts'
import { checkedGiven } from '../costs/given.ts'
import { normalizeHost } from '../policy/host.ts'
import { type Mismatch, mismatchOf } from '../policy/mismatch.ts'
import { isAmbiguousPath, normalizePath } from '../policy/path.ts'
import type { Plan, PlanPolicy, PlanRule } from '../policy/plan.ts'
import { Matches } from '../policy/routes.ts'
import { Descriptors, type DescriptorValue, type Identification, type RequestParts, UNDECIDED } from '../request/descriptors.ts'
import { REPEATED, type RequestView } from '../request/view.ts'
import type { ActivePlan } from './active-plan.ts'
import type { Descriptor, RateLimit, WouldReject } from './decision.ts'
import { Group } from './group.ts'
import type { OverrideIndex } from './override-index.ts'
import type { BodyFacts, BodyNeed, OpenOptions } from './question.ts'
import type { ReservedCharge } from './reservation.ts'
import { APPLIES, LACKS_KEY, NEEDS_BODY, OVER, RuleVerdicts } from './rule-verdicts.ts'
import { bundleRule, type Variant } from './variant.ts'

const NONE: never[] = []
Object.freeze(NONE)

/** The state of one decision. Used again for others: what it returns must be a copy, and at its end it keeps nothing of the request. */
export class Run implements RequestFacts, RequestParts {
  /** The policies that cover the request, in bundle order. */
  readonly matches = new Matches<PlanPolicy>()
  /** The current group. One that waits for the store is not used again meanwhile. */
  group = new Group()
  /** Of the policy that was looked at last. */
  readonly verdicts = new RuleVerdicts()
  limit: RateLimit | undefined
  // Part of the decision, so each decision that adds something gets lists of its own.
  wouldRejects: WouldReject[] = NONE
  missingKeys: string[] = NONE
  reserved: ReservedCharge[] = NONE
  holds: ReservedCharge[] = NONE
  active: ActivePlan | undefined
  nowMs = 0
  wallMs = 0
  /** Undefined where there are none. */
  overrides: OverrideIndex | undefined
  /** Whether an override has all policies in shadow mode. */
  isShadowed = false
  withDescriptors = false
  /** Whether the policies that apply depend on a host, and the request names none. */
  lacksHost = false
  /** Whether a charged rule is keyed by a field that is repeated: then nothing may be taken. */
  hasRepeated = false
  path = ''
  body: RequestFacts['body']
  /** Whether the body can be understood in more than one way. */
  isBodyAmbiguous = false
  /** Whether there may be a body that was not read. */
  isBodyUnread = false
  /** Whether a rule that was checked by the head alone lacks nothing but the body. */
  bodyNeed: BodyNeed = 'no'
  given = 1
  isGiven = false
  isSettledLater = false
  readonly #descriptors: Descriptors
  /** Of the rule that was looked at last. */
  readonly #subject: string[] = []

  constructor(identification: Identification) {
    this.#descriptors = new Descriptors(identification, this)
  }

  /** Finds the policies that cover the request. */
  begin(view: RequestView, active: ActivePlan, options: OpenOptions): void {
    const { plan } = active
    this.active = active
    this.withDescriptors = options.withDescriptors === true
    this.isGiven = options.given !== undefined
    this.given = options.given === undefined ? 1 : checkedGiven(options.given)
    this.isSettledLater = options.isSettledLater === true
    this.path = normalizePath(view.uri)
    this.#descriptors.begin(view, plan.keys)
    const exceptedPath = plan.routes.hasExceptions ? this.#exceptedPath(view) : this.path
    this.lacksHost = !plan.routes.match(this.path, hostOf(view, plan), upperCase(view.method), this.matches, exceptedPath)
  }

  /** Clears the results of an earlier step. What was read of the request stays. */
  restart(): void {
    this.group.clear()
    this.missingKeys = NONE
    this.wouldRejects = NONE
    this.#descriptors.restart()
  }

  /** What the body says, for the last step. */
  setBody(body: BodyFacts): void {
    this.isBodyAmbiguous = body === 'repeated_descriptor'
    this.body = body === 'repeated_descriptor' ? undefined : body
    if (body !== undefined) this.isBodyUnread = false
  }

  /** Drops the request and all results. References to the plan stay, and are overwritten by the next request. */
  end(): void {
    this.body = undefined
    this.isBodyAmbiguous = false
    this.isBodyUnread = false
    if (this.wouldRejects.length > 0) this.wouldRejects = NONE
    if (this.missingKeys.length > 0) this.missingKeys = NONE
    if (this.reserved.length > 0) this.reserved = NONE
    if (this.holds.length > 0) this.holds = NONE
    this.hasRepeated = false
    this.path = ''
    this.group.clear()
    this.#descriptors.end()
  }

  /** Why a policy that was not found does not cover the request. */
  mismatchOf({ selector }: PlanPolicy): Mismatch | undefined {
    const view = this.#descriptors.view!
    return mismatchOf(selector, this.path, hostOf(view, this.active!.plan), upperCase(view.method), this.#exceptedPath(view))
  }

  get model(): DescriptorValue {
    return this.isBodyUnread || this.isBodyAmbiguous ? UNDECIDED : this.body?.model
  }

  valueOf(keyIndex: number): DescriptorValue {
    return this.#descriptors.get(keyIndex)
  }

  /** Of the rule's limit keys; empty where there is none. */
  limitValues({ keyIndexes }: PlanRule): string[] {
    return keyIndexes.map((index) => {
      const value = this.#descriptors.get(index)
      return typeof value === 'string' ? value : ''
    })
  }

  headerText(name: string): string | undefined | null {
    const value = this.#descriptors.view!.header(name)
    return value === REPEATED ? null : value
  }

  /** Finds out which rules of the policy apply. Notes nothing else. */
  judge(policy: PlanPolicy): RuleVerdicts {
    this.verdicts.judge(policy, this.#descriptors, this.wallMs, this.isBodyAmbiguous)
    return this.verdicts
  }

  /** The first block of an enforcing policy that applies. */
  findBlock(): PlanRule | undefined {
    const { policies, count } = this.matches
    for (let i = 0; i < count; i++) {
      const policy = policies[i]!
      const block = policy.isShadow ? undefined : this.blockIn(policy)
      if (block !== undefined) return block
    }
    return undefined
  }

  /** Whether the policy changes no response. */
  simulates({ isShadow }: PlanPolicy): boolean {
    return isShadow || this.isShadowed
  }

  /** The first rule of the policy that applies and blocks, by itself or by an override. */
  blockIn(policy: PlanPolicy): PlanRule | undefined {
    const { overrides } = this
    if (overrides === undefined) return policy.hasBlocks ? this.judge(policy).block : undefined
    if (!overrides.mayBlock(policy)) return undefined
    const verdicts = this.judge(policy)
    return policy.rules.find((rule, i) => verdicts.of(i) === APPLIES && this.#inForce(rule).block !== undefined)
  }

  /** The rule under the override that is in force for this caller; undefined where none is, or a value of its limit keys is not known. */
  variantOf(rule: PlanRule): Variant | undefined {
    const overrides = this.overrides?.of(rule)
    if (overrides === undefined) return undefined
    for (let k = 0; k < rule.keyIndexes.length; k++) {
      const value = this.#descriptors.get(rule.keyIndexes[k]!)
      if (typeof value !== 'string') return undefined
      this.#subject[k] = value
    }
    return overrides.find(this.#subject, this.nowMs)
  }

  /** The first of those that end streams under way. */
  findStreamCut(): PlanRule | undefined {
    const { policies, count } = this.matches
    for (let i = 0; i < count; i++) {
      const policy = policies[i]!
      if (!policy.hasBlocks || policy.isShadow || this.judge(policy).block === undefined) continue
      const rule = policy.rules.find(
        (each, r) => each.block?.cutsStreams && this.verdicts.of(r) === APPLIES && this.#inForce(each).block !== undefined,
      )
      if (rule !== undefined) return rule
    }
    return undefined
  }

  /** Whether two readers could understand differently whom a rule of the policy charges, or how much, as far as the head says it. */
  isAmbiguous(policy: PlanPolicy, isHeadOnly = false): boolean {
    const { rules, keyIndexes, isPlain } = policy
    if (isPlain) {
      for (let i = 0; i < keyIndexes.length; i++) if (this.#descriptors.get(keyIndexes[i]!) === REPEATED) return true
    } else if (this.judge(policy).hasRepeated) return true
    for (let i = 0; i < rules.length; i++) {
      const rule = this.#inForce(rules[i]!)
      if (isHeadOnly && rule.cost.needsBody) continue
      if ((isPlain || this.verdicts.of(i) === APPLIES) && this.isCostAmbiguous(rule)) return true
    }
    return false
  }

  isCostAmbiguous({ needsBody, cost }: PlanRule): boolean {
    return (needsBody && this.isBodyAmbiguous) || Number.isNaN(cost.of(this))
  }

  /** Adds a policy's rules to the group. Rules that lack a descriptor are skipped, and their missing keys noted. All keys are read. */
  charge(policy: PlanPolicy, isHeadOnly = false): void {
    if (!policy.isPlain) return this.#chargeApplying(policy, isHeadOnly)
    for (let i = 0; i < policy.rules.length; i++) {
      const rule = policy.rules[i]!
      if (this.#isUndecided(rule, isHeadOnly)) this.#leaveUndecided(rule)
      else this.#chargeRule(rule)
    }
  }

  /** Keeps what a group's rules took for a later settlement. */
  reserve(group: Group): void {
    for (let i = 0; i < group.ruleCount; i++) {
      const rule = group.rules[i]!
      const { settling } = rule.cost
      if (settling === undefined || !settling.applies(this)) continue
      const { costs, values, valuesFrom } = group.charges
      const { wallMs, momentMs, takenFrom } = group.results
      const row = group.firstRows[i]!
      const own = values.slice(valuesFrom[row]!, valuesFrom[row + 1]!)
      const taken = { wallMs, momentMs, from: takenFrom }
      const settler = settling.forRequest?.(this) ?? settling
      const charge = { active: this.active!, rule: bundleRule(rule), amount: costs[row]!, values: own, settler, taken }
      if (settling.at === 'usage') this.reserved = [...this.reserved, charge]
      else this.holds = [...this.holds, charge]
    }
  }

  addWouldReject(wouldReject: WouldReject): void {
    if (this.wouldRejects.length === 0) this.wouldRejects = []
    this.wouldRejects.push(wouldReject)
  }

  /** The descriptors of all rules, the deciding rule's first. */
  keyedBy(decidingRule: PlanRule | undefined): readonly Descriptor[] {
    if (!this.withDescriptors) return NONE
    const rules = this.matches.policies.slice(0, this.matches.count).flatMap((policy) => policy!.rules)
    const indexes = new Set((decidingRule === undefined ? rules : [decidingRule, ...rules]).flatMap(keyIndexesOf))
    const found: Descriptor[] = []
    for (const index of indexes) {
      const value = this.#descriptors.get(index)
      if (typeof value === 'string') found.push({ key: this.active!.plan.keys[index]!.text, value })
    }
    return found
  }

  /** A path that the backend may understand differently is no exception. */
  #exceptedPath({ uri }: RequestView): string {
    return isAmbiguousPath(uri) ? '' : this.path
  }

  /** The same where not all rules apply to everybody. The limit keys of a rule that does not match are not read. */
  #chargeApplying(policy: PlanPolicy, isHeadOnly: boolean): void {
    const verdicts = this.judge(policy)
    if (verdicts.hasRepeated) this.hasRepeated = true
    for (let i = 0; i < policy.rules.length; i++) {
      const rule = policy.rules[i]!
      const verdict = verdicts.of(i)
      // One that is over reads nothing.
      for (let m = 0; verdict !== OVER && m < (rule.match?.length ?? 0); m++) this.#noteIfMissing(rule.match![m]!.keyIndex)
      if (verdict === LACKS_KEY) for (let k = 0; k < rule.keyIndexes.length; k++) this.#noteIfMissing(rule.keyIndexes[k]!)
      else if (verdict === NEEDS_BODY || (verdict === APPLIES && this.#isUndecided(rule, isHeadOnly))) this.#leaveUndecided(rule)
      else if (verdict === APPLIES) this.#chargeRule(rule)
    }
  }

  /** Whether it needs a body that is not read yet, or can be understood in more than one way. */
  #isUndecided(rule: PlanRule, isHeadOnly: boolean): boolean {
    return rule.needsBody && (isHeadOnly || this.isBodyAmbiguous) && this.#inForce(rule).needsBody
  }

  #inForce(rule: PlanRule): PlanRule {
    return this.overrides === undefined ? rule : (this.variantOf(rule)?.rule ?? rule)
  }

  /** Under the override that is in force for this caller, if there is one. */
  #chargeRule(bundled: PlanRule): void {
    const variant = this.overrides === undefined ? undefined : this.variantOf(bundled)
    const rule = variant === undefined ? bundled : variant.rule
    const { group } = this
    const { charges } = group
    const cost = rule.cost.of(this)
    if (Number.isNaN(cost)) {
      this.hasRepeated = true
      return
    }
    const firstRow = charges.length
    for (let c = 0; c < rule.counters.length; c++) {
      if (!this.#pushValues(rule)) break
      charges.add(variant === undefined ? this.active!.counters[rule.counters[c]!.index]! : variant.counters[c]!, cost)
    }
    if (charges.length > firstRow) group.add(rule, firstRow)
  }

  #pushValues(rule: PlanRule): boolean {
    const { charges } = this.group
    const before = charges.valueCount
    let isComplete = true
    for (let k = 0; k < rule.keyIndexes.length; k++) {
      const index = rule.keyIndexes[k]!
      const value = this.#descriptors.get(index)
      if (typeof value === 'string') charges.addValue(value)
      else {
        isComplete = false
        this.#noteMissing(index, value)
      }
    }
    if (!isComplete) charges.dropValues(before)
    return isComplete
  }

  /** Notes what a rule that needs the body lacks besides; if nothing, that it needs the body, or that nobody knows what that says. */
  #leaveUndecided({ keyIndexes, cost, policy, needsBody }: PlanRule): void {
    let needsOnlyBody = true
    for (let k = 0; k < keyIndexes.length; k++) {
      const index = keyIndexes[k]!
      const value = this.#descriptors.get(index)
      if (typeof value === 'string' || value === UNDECIDED) continue
      needsOnlyBody = false
      this.#noteMissing(index, value)
    }
    if (!cost.needsBody && Number.isNaN(cost.of(this))) this.hasRepeated = true
    // An `else` may wait for another rule.
    if (needsOnlyBody && this.isBodyAmbiguous) this.hasRepeated = true
    else if (needsBody && needsOnlyBody && this.bodyNeed !== 'must') this.bodyNeed = this.simulates(policy) ? 'may' : 'must'
  }

  #noteIfMissing(index: number): void {
    const value = this.#descriptors.get(index)
    if (typeof value !== 'string') this.#noteMissing(index, value)
  }

  /** A value that is not there, is repeated, or is not known yet, which is not reported. */
  #noteMissing(index: number, value: DescriptorValue): void {
    if (value === UNDECIDED) return
    if (value === REPEATED) this.hasRepeated = true
    if (!this.#descriptors.isFirstMiss(index)) return
    if (this.missingKeys.length === 0) this.missingKeys = []
    this.missingKeys.push(this.active!.plan.keys[index]!.text)
  }
}

/** Those of its match come first: they say why the rule applies. */
export function keyIndexesOf({ match, keyIndexes }: PlanRule): readonly number[] {
  return match === undefined ? keyIndexes : [...match.map(({ keyIndex }) => keyIndex), ...keyIndexes]
}

/** The host is read only if a policy is bound to one. */
function hostOf(view: RequestView, plan: Plan): string {
  return plan.routes.usesHosts ? normalizeHost(view.host) : ''
}

/** Nearly all methods are in upper case, and checking is cheaper than converting. */
function upperCase(method: string): string {
  for (let i = 0; i < method.length; i++) {
    const code = method.charCodeAt(i)
    if (code < 0x41 || code > 0x5a) return method.toUpperCase()
  }
  return method
}
