import { type Clock, WallTime } from '../clock.ts'
import type { RequestFacts } from '../costs/cost.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { Identification } from '../request/descriptors.ts'
import type { RequestView } from '../request/view.ts'
import type { CounterStore, Outcome } from '../store/counter-store.ts'
import type { ActivePlan } from './active-plan.ts'
import type { Allowed, Decision, RateLimit, Refused, Rejected } from './decision.ts'
import { Group } from './group.ts'
import type { Run } from './run.ts'
import { RunPool } from './run-pool.ts'
import { mostConstrained, type Objection, worstObjection } from './verdict.ts'

/** 'must' where a rule that counts tokens enforces, 'may' where all are in shadow mode and no answer may change because of them. */
export type BodyNeed = 'must' | 'may' | 'no'

const NO_HOST: Refused = { action: 'refuse', reason: 'missing_original_host' }
const REPEATED_FIELD: Refused = { action: 'refuse', reason: 'repeated_descriptor' }
const NO_STORE: Refused = { action: 'refuse', reason: 'store_unavailable' }

/** The steps from a request to its decision, by whatever plan the caller names. */
export class Evaluator {
  readonly #store: CounterStore
  readonly #clock: Clock
  readonly #wallTime: WallTime
  readonly #runs: RunPool

  constructor(store: CounterStore, clock: Clock, identification: Identification) {
    this.#store = store
    this.#clock = clock
    this.#wallTime = new WallTime(clock)
    this.#runs = new RunPool(identification)
  }

  decide(
    active: ActivePlan,
    view: RequestView,
    explains: boolean,
    body: RequestFacts['body'],
    nowMs = this.#clock.nowMs(),
  ): Decision | Promise<Decision> {
    const run = this.#begin(view, active, explains, body, nowMs)
    if (run === undefined) return NO_HOST
    const { policies, count } = run.matches
    for (let i = 0; i < count; i++) if (!policies[i]!.isShadow) run.charge(policies[i]!)
    if (run.hasRepeated) return this.#refuseRepeated(run)
    const taken = this.#take(run)
    return taken instanceof Promise ? taken.then((later) => this.#afterEnforcing(run, later)) : this.#afterEnforcing(run, taken)
  }

  needsBody(active: ActivePlan, view: RequestView): BodyNeed {
    if (!active.plan.needsBody) return 'no'
    const run = this.#begin(view, active, false, undefined)
    if (run === undefined) return 'no'
    const { policies, count } = run.matches
    for (let i = 0; i < count; i++) if (policies[i]!.needsBody && !policies[i]!.isShadow) run.charge(policies[i]!)
    // What will be refused needs no body.
    const isRefused = run.hasRepeated
    for (let i = 0; i < count; i++) {
      const policy = policies[i]!
      if (policy.needsBody && policy.isShadow && !run.isKeyedByRepeated(policy)) run.charge(policy)
    }
    const need = isRefused ? 'no' : bodyNeed(run.group)
    this.#runs.giveBack(run)
    return need
  }

  /** Plain rules are checked, and nothing is taken. */
  precheck(active: ActivePlan, view: RequestView, explains: boolean): Rejected | Refused | undefined | Promise<Rejected | undefined> {
    const run = this.#begin(view, active, explains, undefined)
    if (run === undefined) return NO_HOST
    const { policies, count } = run.matches
    for (let i = 0; i < count; i++) if (!policies[i]!.isShadow) run.charge(policies[i]!, true)
    if (run.hasRepeated) return this.#refuseRepeated(run)
    const { charges, answers } = run.group
    const fits = charges.length === 0 || this.#store.checkAll(charges, answers, run.nowMs, run.wallMs)
    return fits instanceof Promise ? fits.then((later) => this.#afterCheck(run, later)) : this.#afterCheck(run, fits)
  }

  /** A run for the request, or undefined when a host is needed to tell which policies apply, and it names none. */
  #begin(
    view: RequestView,
    active: ActivePlan,
    explains: boolean,
    body: RequestFacts['body'],
    nowMs = this.#clock.nowMs(),
  ): Run | undefined {
    const run = this.#runs.take()
    if (run.begin(view, active, nowMs, this.#wallTime.at(nowMs), explains, body)) return run
    this.#runs.giveBack(run)
    return undefined
  }

  #refuseRepeated(run: Run): Refused {
    this.#runs.giveBack(run)
    return REPEATED_FIELD
  }

  #take(run: Run): Outcome | Promise<Outcome> {
    const { charges, answers } = run.group
    return charges.length === 0 || this.#store.takeAll(charges, answers, run.nowMs, run.wallMs)
  }

  /** A store that cannot tell has no objection: it will be asked again. */
  #afterCheck(run: Run, fits: Outcome): Rejected | undefined {
    if (fits === false) return this.#reject(run)
    this.#runs.giveBack(run)
    return undefined
  }

  #afterEnforcing(run: Run, taken: Outcome): Decision | Promise<Decision> {
    if (taken === false) return this.#reject(run)
    if (taken === 'unavailable') {
      this.#runs.giveBack(run)
      return NO_STORE
    }
    run.hold(run.group)
    run.limit = mostConstrained(run.group, run.wallMs)
    return this.#simulate(run)
  }

  /** Each shadow policy is an all-or-nothing simulation of its own, on counters of its own. A store far away is asked about all at once. */
  #simulate(run: Run): Decision | Promise<Decision> {
    let asked: { readonly group: Group; readonly taken: Outcome | Promise<Outcome> }[] | undefined
    for (let i = 0; i < run.matches.count; i++) {
      const policy = run.matches.policies[i]!
      // Left out altogether: its other rules would count what it cannot tell apart.
      if (!policy.isShadow || run.isKeyedByRepeated(policy)) continue
      run.group.clear()
      run.charge(policy)
      const taken = this.#take(run)
      if (asked === undefined && !(taken instanceof Promise)) {
        this.#afterSimulated(run, run.group, taken)
        continue
      }
      asked ??= []
      asked.push({ group: run.group, taken })
      run.group = new Group()
    }
    return asked === undefined ? this.#allow(run) : this.#afterAll(run, asked)
  }

  /** In bundle order, whichever was answered first. */
  async #afterAll(run: Run, asked: readonly { group: Group; taken: Outcome | Promise<Outcome> }[]): Promise<Decision> {
    const outcomes = await Promise.all(asked.map(({ taken }) => taken))
    for (const [i, { group }] of asked.entries()) this.#afterSimulated(run, group, outcomes[i]!)
    return this.#allow(run)
  }

  #afterSimulated(run: Run, group: Group, taken: Outcome): void {
    if (taken === false) run.addWouldReject(worstObjection(group, run.wallMs))
    else if (taken === true) run.hold(group)
  }

  #allow(run: Run): Decision {
    const wouldReject = run.wouldRejects[0]
    const rule = wouldReject?.rule ?? run.limit?.rule
    return this.#conclude(run, 'allow', wouldReject?.reason ?? 'all_rules_passed', run.limit, rule, undefined) as Allowed
  }

  #reject(run: Run): Rejected {
    const objection = worstObjection(run.group, run.wallMs)
    const { rule, reason, limitText, retryAfterMs } = objection
    const limit = { rule, limitText, remaining: 0, resetMs: retryAfterMs }
    return this.#conclude(run, 'reject', reason, limit, rule, objection) as Rejected
  }

  /** Writes the decision down in one object of one shape, and puts the run to rest. */
  #conclude(
    run: Run,
    action: 'allow' | 'reject',
    reason: Allowed['reason'],
    limit: RateLimit | undefined,
    rule: PlanRule | undefined,
    objection: Objection | undefined,
  ): Allowed | Rejected {
    const decision = {
      action,
      reason,
      limit,
      canRetry: objection === undefined || objection.canRetry,
      requested: objection === undefined ? 0 : objection.requested,
      available: objection === undefined ? 0 : objection.available,
      reservation: run.holds.length === 0 ? undefined : { holds: run.holds },
      policy: rule?.policy,
      rule,
      wouldRejects: run.wouldRejects,
      missingKeys: run.missingKeys,
      matchedPolicies: run.matches.count,
      descriptors: run.explain(rule),
    }
    this.#runs.giveBack(run)
    return decision as Allowed | Rejected
  }
}

function bodyNeed(group: Group): BodyNeed {
  let need: BodyNeed = 'no'
  for (let i = 0; i < group.ruleCount; i++) {
    const rule = group.rules[i]!
    if (!rule.cost.needsBody) continue
    if (!rule.policy.isShadow) return 'must'
    need = 'may'
  }
  return need
}
