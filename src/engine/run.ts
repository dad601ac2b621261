import type { RequestFacts } from '../costs/cost.ts'
import { checkedGiven } from '../costs/request-costs.ts'
import { Matches } from '../policy/index/routes.ts'
import { normalizeHost } from '../policy/patterns.ts'
import type { Plan, PlanPolicy, PlanRule } from '../policy/plan.ts'
import type { RoutedRequest } from '../policy/routes/routing.ts'
import type { CallerVerdict } from '../request/caller.ts'
import { Descriptors, type DescriptorValue, type Identification, type RequestParts, UNDECIDED, UNREADABLE } from '../request/descriptors.ts'
import { isPreflight, isRewritten } from '../request/excepted-request.ts'
import { REPEATED, type RequestView } from '../request/view.ts'
import { isAmbiguousPath, isPlainPath, normalizePath } from '../text/path.ts'
import type { ActivePlan } from './active-plan.ts'
import { REPEATED_FIELD } from './conclusion.ts'
import type { BodyFacts, BodyNeed, OpenOptions } from './decide-options.ts'
import { type CallerReason, type Descriptor, Group, type RateLimit, type Refused, type WouldReject } from './decision.ts'
import { type Mismatch, mismatchOf } from './explain/selector-mismatch.ts'
import type { OverrideIndex } from './overrides/override-index.ts'
import { bundleRule, type Variant } from './overrides/rule-overrides.ts'
import { NO_LABELS, type ReservedCharge, type UsageLabels } from './reservation.ts'
import { APPLIES, RuleVerdicts } from './rule-verdicts.ts'
import { SeenCounters } from './seen-counters.ts'
import type { WaitingLines } from './waiting-lines.ts'

const NONE: never[] = []
Object.freeze(NONE)

/** The state of one decision. It is reused, so whatever it returns must be a copy, and at its end it keeps nothing of the request. */
export class Run implements RequestFacts, RequestParts, RoutedRequest {
  /** The policies that cover the request, in bundle order. */
  readonly matches = new Matches<PlanPolicy>()
  /** The current group. While the store works on a group, the run does not reuse it. */
  group = new Group()
  /** Verdicts on the policy judged last. */
  readonly verdicts = new RuleVerdicts()
  limit: RateLimit | undefined
  // These lists become part of the decision, so each decision that adds to one gets its own.
  wouldRejects: WouldReject[] = NONE
  missingKeys: string[] = NONE
  reserved: ReservedCharge[] = NONE
  holds: ReservedCharge[] = NONE
  active: ActivePlan | undefined
  nowMs = 0
  wallMs = 0
  /** Undefined if there are none. */
  overrides: OverrideIndex | undefined
  /** Whether an override puts all policies in shadow mode. */
  isShadowed = false
  withDescriptors = false
  /** The caller, if the one who asks knows it. */
  givenCaller: CallerVerdict | undefined
  /** The requests that wait; undefined if none can. */
  lines: WaitingLines | undefined
  /** With `callers` in shadow mode: the reason with which they would refuse the request. */
  wouldRefuse: CallerReason | undefined
  /** Set for a run that only looks: it takes nothing, is not reported to watchers, and never returns to the pool. */
  seen: SeenCounters | undefined
  /** Whether policies that apply depend on a host and the request names none. */
  lacksHost = false
  /** Set if a charged rule cannot count the request: it depends on a repeated field or an ambiguous body, or opens a socket. Nothing may be taken then. */
  refusal: Refused | undefined
  opensSocket = false
  path = ''
  body: RequestFacts['body']
  /** The models that the request's route may send it as. */
  sendableModels: RequestFacts['sendableModels']
  /** Whether the body can be understood in more than one way. */
  isBodyAmbiguous = false
  /** Whether there may be a body that has not been read. */
  isBodyUnread = false
  /** Whether a rule that was checked by the head alone lacks nothing but the body. */
  bodyNeed: BodyNeed = 'no'
  given = 1
  isGiven = false
  isSettledLater = false
  readonly #descriptors: Descriptors
  /** Made once, because a request has one in vain where its token is remembered. */
  readonly #addressOf = (): string | undefined => this.#descriptors.networkAddress
  /** Indexes of the limit keys of the rules that need the body. */
  readonly #bodyKeys: number[] = []
  /** Values of the rule looked up last, reused. */
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
    this.sendableModels = undefined
    this.lines = options.lines
    if (options.looks === true) this.seen = new SeenCounters()
    this.path = normalizePath(view.uri)
    this.opensSocket = view.opensSocket === true
    this.#descriptors.begin(view, plan.keys)
    if (plan.callers !== undefined) {
      this.givenCaller = options.caller
      this.#descriptors.awaitCaller()
    }
    const exceptedPath = plan.routes.hasExceptions ? this.#exceptedPath(view) : this.path
    this.lacksHost = !plan.routes.match(this.path, hostOf(view, plan), upperCase(view.method), this.matches, exceptedPath)
  }

  /** Who sends the request; undefined if the plan does not say who is known, or it was not found out yet. */
  get caller(): CallerVerdict | undefined {
    return this.#descriptors.caller
  }

  set caller(caller: CallerVerdict) {
    this.#descriptors.setCaller(caller, this.active!.plan.callers?.verifiesTokens === true)
  }

  /** Finds out who sends the request, for a plan with `callers`. */
  readCaller(): CallerVerdict | Promise<CallerVerdict> {
    return this.givenCaller ?? this.active!.callers!.read(this.#descriptors.view!, this.#addressOf)
  }

  /** Whether the request needs no verified caller. A preflight has no credential, so one that has a bad one is none. */
  get isExcepted(): boolean {
    const { exceptPaths, exceptsPreflights } = this.active!.plan.callers!
    const view = this.#descriptors.view!
    if (exceptPaths !== undefined && isPlainPath(view.uri) && exceptPaths.cover(this.path) && !isRewritten(view)) return true
    const { caller } = this
    return exceptsPreflights && caller !== undefined && 'problem' in caller && caller.problem === 'no_credential' && isPreflight(view)
  }

  /** The host that routes are bound to. */
  get host(): string {
    return normalizeHost(this.#descriptors.view!.host)
  }

  get method(): string {
    return upperCase(this.#descriptors.view!.method)
  }

  /** Clears the results of an earlier step and keeps what was read from the request. */
  restart(): void {
    this.group.clear()
    this.missingKeys = NONE
    this.wouldRejects = NONE
    this.#descriptors.restart()
  }

  /** Sets the facts from the body, for the last step. */
  setBody(body: BodyFacts): void {
    this.isBodyAmbiguous = body === 'repeated_descriptor'
    this.body = body === 'repeated_descriptor' ? undefined : body
    if (body !== undefined) this.isBodyUnread = false
  }

  /** Drops the request and all results. References to the plan stay until the next request overwrites them. */
  end(): void {
    this.body = undefined
    this.isBodyAmbiguous = false
    this.isBodyUnread = false
    if (this.wouldRejects.length > 0) this.wouldRejects = NONE
    if (this.missingKeys.length > 0) this.missingKeys = NONE
    if (this.reserved.length > 0) this.reserved = NONE
    if (this.holds.length > 0) this.holds = NONE
    this.refusal = undefined
    if (this.givenCaller !== undefined) this.givenCaller = undefined
    if (this.lines !== undefined) this.lines = undefined
    if (this.wouldRefuse !== undefined) this.wouldRefuse = undefined
    this.path = ''
    this.group.clear()
    this.#descriptors.end()
  }

  /** Returns why a policy that the route index did not find does not cover the request. */
  mismatchOf({ selector }: PlanPolicy): Mismatch | undefined {
    const view = this.#descriptors.view!
    return mismatchOf(selector, this.path, hostOf(view, this.active!.plan), upperCase(view.method), this.#exceptedPath(view))
  }

  get model(): DescriptorValue {
    if (this.isBodyUnread || this.isBodyAmbiguous) return UNDECIDED
    return this.body?.isUnreadable === true ? UNREADABLE : this.body?.model
  }

  valueOf(keyIndex: number): DescriptorValue {
    return this.#descriptors.get(keyIndex)
  }

  /** Returns the values of the rule's limit keys, with an empty string for each that has none. */
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

  forgetBodyNeed(): void {
    this.bodyNeed = 'no'
    this.#bodyKeys.length = 0
  }

  /** Notes that the rule lacks nothing but the body. */
  noteBodyNeed({ policy, keyIndexes }: PlanRule): void {
    const isSimulated = this.simulates(policy)
    if (isSimulated && this.bodyNeed === 'must') return
    this.bodyNeed = isSimulated ? 'may' : 'must'
    for (let k = 0; k < keyIndexes.length; k++) if (!this.#bodyKeys.includes(keyIndexes[k]!)) this.#bodyKeys.push(keyIndexes[k]!)
  }

  /**
   * Returns the limit keys of the rules that need the body, each followed by its value, as far as the head has one. Each key occurs once and in the plan's
   * order, so that a caller is identified alike whichever rules with these keys cover a request. Keys of shadow rules count only if no enforcing rule needs
   * the body, because shadow rules must not change a response.
   */
  bodyCaller(): string[] {
    const texts: string[] = []
    for (const index of this.#bodyKeys.sort((a, b) => a - b)) {
      const value = this.#descriptors.get(index)
      if (typeof value === 'string') texts.push(this.active!.plan.keys[index]!.text, value)
    }
    return texts
  }

  /** Determines which rules of the policy apply, and notes nothing else. */
  judge(policy: PlanPolicy): RuleVerdicts {
    this.verdicts.judge(policy, this.#descriptors, this.wallMs, this.isBodyAmbiguous)
    return this.verdicts
  }

  /** Whether the policy must not change a response. */
  simulates({ isShadow }: PlanPolicy): boolean {
    return isShadow || this.isShadowed
  }

  /** Returns the rule under the override in force for this caller; undefined if there is none, or if a value of its limit keys is not known. */
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

  /** Returns the rule as it applies to this caller: under an override, or as it is in the bundle. */
  inForce(rule: PlanRule): PlanRule {
    return this.overrides === undefined ? rule : (this.variantOf(rule)?.rule ?? rule)
  }

  /** Whether two readers could disagree, as far as the head goes, on whom a rule of the policy charges or how much. */
  isAmbiguous(policy: PlanPolicy, isHeadOnly = false): boolean {
    const { rules, keyIndexes, isPlain } = policy
    if (isPlain) {
      for (let i = 0; i < keyIndexes.length; i++) if (this.#descriptors.get(keyIndexes[i]!) === REPEATED) return true
    } else if (this.judge(policy).hasRepeated) return true
    for (let i = 0; i < rules.length; i++) {
      const rule = this.inForce(rules[i]!)
      if (isHeadOnly && rule.cost.needsBody) continue
      if ((isPlain || this.verdicts.of(i) === APPLIES) && this.isCostAmbiguous(rule)) return true
    }
    return false
  }

  isCostAmbiguous({ needsBody, cost }: PlanRule): boolean {
    return (needsBody && this.isBodyAmbiguous) || Number.isNaN(cost.of(this))
  }

  /** Returns what the usage log and warnings say about the request. A value that can be read in more than one way is left out. */
  usageLabels(): UsageLabels {
    const { usageLabels, keys } = this.active!.plan
    if (usageLabels.length === 0) return NO_LABELS
    const labels: Record<string, string> = {}
    for (const index of usageLabels) {
      const value = this.#descriptors.get(index)
      if (typeof value === 'string') labels[keys[index]!.text] = value
    }
    return labels
  }

  /** Keeps what a group's rules took for a later settlement. */
  reserve(group: Group): void {
    let labels: UsageLabels | undefined
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
      labels ??= this.usageLabels()
      const charge: ReservedCharge = {
        active: this.active!,
        rule: bundleRule(rule),
        amount: costs[row]!,
        values: own,
        settler,
        taken,
        labels,
        sinceMs: this.nowMs,
        growth: undefined,
      }
      if (settling.at === 'usage') this.reserved = [...this.reserved, charge]
      else this.holds = [...this.holds, charge]
    }
  }

  /** Notes a value that is missing or repeated. A value that is not known yet is not reported. */
  noteMissing(index: number, value: DescriptorValue): void {
    if (value === UNDECIDED) return
    if (value === REPEATED) this.refusal = REPEATED_FIELD
    if (!this.#descriptors.isFirstMiss(index)) return
    if (this.missingKeys.length === 0) this.missingKeys = []
    this.missingKeys.push(this.active!.plan.keys[index]!.text)
  }

  addWouldReject(wouldReject: WouldReject): void {
    if (this.wouldRejects.length === 0) this.wouldRejects = []
    this.wouldRejects.push(wouldReject)
  }

  /** Returns the descriptors of all rules, beginning with the deciding rule's. */
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

  /** A path that the backend might read differently matches no exception. */
  #exceptedPath({ uri }: RequestView): string {
    return isAmbiguousPath(uri) ? '' : this.path
  }
}

/** Returns the keys of the match first, because they say why the rule applies. */
export function keyIndexesOf({ match, keyIndexes }: PlanRule): readonly number[] {
  return match === undefined ? keyIndexes : [...match.map(({ keyIndex }) => keyIndex), ...keyIndexes]
}

/** Reads the host only if a policy is bound to one. */
function hostOf(view: RequestView, plan: Plan): string {
  return plan.routes.usesHosts ? normalizeHost(view.host) : ''
}

/** Checks first, because nearly all methods are in upper case and checking is cheaper than converting. */
function upperCase(method: string): string {
  for (let i = 0; i < method.length; i++) {
    const code = method.charCodeAt(i)
    if (code < 0x41 || code > 0x5a) return method.toUpperCase()
  }
  return method
}

/** The most idle runs kept. A plain decision in memory needs one; more are in use only while a store is slow or bodies are being read. */
const MAX_IDLE = 64

/** Idle runs of the active plan. They keep nothing of any request, and are dropped when the plan changes. */
export class RunPool {
  readonly #identification: Identification
  readonly #idle: Run[] = []
  #active: ActivePlan | undefined

  constructor(identification: Identification) {
    this.#identification = identification
  }

  turnTo(active: ActivePlan | undefined): void {
    if (active === this.#active) return
    this.#active = active
    this.#idle.length = 0
  }

  take(): Run {
    return this.#idle.pop() ?? new Run(this.#identification)
  }

  giveBack(run: Run): void {
    run.end()
    if (run.active === this.#active && this.#idle.length < MAX_IDLE) this.#idle.push(run)
  }
}
