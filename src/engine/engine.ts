import type { Clock } from '../clock.ts'
import type { LlmRequest } from '../llm/llm-request.ts'
import { identityName, namedLimits } from '../policy/compile.ts'
import type { Plan, PlanRule } from '../policy/plan.ts'
import { defaultIdentification, type Identification } from '../request/descriptors.ts'
import type { RequestView } from '../request/view.ts'
import { Charges } from '../store/charges.ts'
import type { CounterStore, Outcome } from '../store/counter-store.ts'
import { type ActivePlan, openPlan } from './active-plan.ts'
import type { Allowed, Decision, RateLimit, Refused, Rejected } from './decision.ts'
import { Group } from './group.ts'
import { type LimitAges, limitAges } from './limit-ages.ts'
import { PlanSwitch } from './plan-switch.ts'
import type { Hold, Reservation } from './reservation.ts'
import { Run } from './run.ts'
import { mostConstrained, type Objection, worstObjection } from './verdict.ts'

export interface EngineOptions {
  readonly store: CounterStore
  readonly clock: Clock
  readonly identification?: Identification
  /** Shared by threads that turn to a new plan as one. */
  readonly planSwitch?: PlanSwitch
}

const NO_BUNDLE: Refused = { action: 'refuse', reason: 'no_bundle_loaded' }
const NO_STORE: Refused = { action: 'refuse', reason: 'store_unavailable' }
const NO_HOST: Refused = { action: 'refuse', reason: 'missing_original_host' }

/** Answers whether a request may go on. Knows nothing of sockets, headers or logs. */
export class Engine {
  readonly #store: CounterStore
  readonly #clock: Clock
  readonly #identification: Identification
  readonly #plans: PlanSwitch
  #ages: LimitAges | undefined
  /** Runs at rest. A store that answers at once needs only one. */
  readonly #idle: Run[] = []

  constructor(options: EngineOptions) {
    this.#store = options.store
    this.#clock = options.clock
    this.#identification = options.identification ?? defaultIdentification()
    this.#plans = options.planSwitch ?? new PlanSwitch()
  }

  get plan(): Plan | undefined {
    return this.#plans.active?.plan
  }

  /** From the next decision on, this plan holds. Decisions under way keep theirs. */
  activate(plan: Plan): void {
    const generation = this.#plans.generation + 1
    this.#ages = limitAges(namedLimits(plan.counters), this.#clock.nowMs(), this.#ages)
    for (const _step of this.prepare(generation, plan, this.#ages.sincesMs));
    this.#plans.turnTo(generation)
  }

  /** Makes a plan ready, in small steps, to hold as soon as the switch is turned to its generation. */
  *prepare(generation: number, plan: Plan, sincesMs: Float64Array): Generator<void> {
    this.#plans.add(generation, yield* openPlan(plan, this.#store, sincesMs))
  }

  /**
   * Decides and takes. Answers at once where the store does. `explains` adds the descriptor values, which cost and
   * are nobody's business but an operator's. With `llm`, what is known of the body, LLM rules take what it may cost, and
   * the decision has a reservation to settle. Who knows the time says it: `nowMs` is the clock's.
   */
  decide(view: RequestView, explains = false, llm?: LlmRequest, nowMs = this.#clock.nowMs()): Decision | Promise<Decision> {
    const active = this.#plans.active
    if (active === undefined) return NO_BUNDLE
    const run = this.#begin(view, active, explains, llm, nowMs)
    if (run === undefined) return NO_HOST
    run.group.clear()
    const { policies, count } = run.matches
    for (let i = 0; i < count; i++) if (!policies[i]!.isShadow) run.charge(policies[i]!)
    const taken = this.#take(run)
    return taken instanceof Promise ? taken.then((later) => this.#afterEnforcing(run, later)) : this.#afterEnforcing(run, taken)
  }

  /**
   * Whether rules that count tokens cover the request, so that its body must be read before it can be decided: 'must' where one
   * enforces, 'may' where all are in shadow mode and no answer may change because of them.
   */
  needsBody(view: RequestView): 'must' | 'may' | 'no' {
    const active = this.#plans.active
    if (active === undefined || !active.plan.hasLlmRules) return 'no'
    const run = this.#begin(view, active, false, undefined)
    if (run === undefined) return 'no'
    run.group.clear()
    const { policies, count } = run.matches
    for (let i = 0; i < count; i++) if (policies[i]!.hasLlmRules) run.charge(policies[i]!)
    this.#idle.push(run)
    let need: 'may' | 'no' = 'no'
    for (let i = 0; i < run.group.ruleCount; i++) {
      const rule = run.group.rules[i]!
      if (rule.llm === undefined) continue
      if (!rule.policy.isShadow) return 'must'
      need = 'may'
    }
    return need
  }

  /** What stands against the request as far as its head tells: plain rules are checked, and nothing is taken. */
  objection(view: RequestView, explains = false): Rejected | Refused | undefined | Promise<Rejected | undefined> {
    const active = this.#plans.active
    if (active === undefined) return NO_BUNDLE
    const run = this.#begin(view, active, explains, undefined)
    if (run === undefined) return NO_HOST
    run.group.clear()
    const { policies, count } = run.matches
    for (let i = 0; i < count; i++) if (!policies[i]!.isShadow) run.charge(policies[i]!, true)
    const { charges } = run.group
    const fits = charges.length === 0 || this.#store.checkAll(charges, run.nowMs, run.wallMs)
    return fits instanceof Promise ? fits.then((later) => this.#afterCheck(run, later)) : this.#afterCheck(run, fits)
  }

  /**
   * Corrects what a rule holds to what was used, in the counters that it was taken from. To be called once for each
   * hold. A rule that is gone from the bundle is settled all the same.
   */
  settle(reservation: Reservation, hold: Hold, usedTokens: number): void | Promise<void> {
    if (hold.tokens === usedTokens) return
    const charges = new Charges()
    const { active } = this.#plans
    for (const counter of hold.rule.counters) {
      for (const value of hold.values) charges.addValue(value)
      const taken = reservation.active.counters[counter.index]!
      const current = reservation.active === active ? taken : active?.byIdentity.get(identityName(counter))
      charges.add(current ?? taken, hold.tokens - usedTokens)
    }
    charges.takenWallMs = hold.takenWallMs
    charges.takenFrom = hold.takenFrom
    return this.#store.settleAll(charges, this.#clock.nowMs(), this.#clock.wallMs())
  }

  /** A run for the request, or undefined when a host is needed to tell which policies apply, and it names none. */
  #begin(
    view: RequestView,
    active: ActivePlan,
    explains: boolean,
    llm: LlmRequest | undefined,
    nowMs = this.#clock.nowMs(),
  ): Run | undefined {
    const run = this.#idle.pop() ?? new Run(this.#identification)
    const wallMs = active.plan.hasDayLimits ? this.#clock.wallMs() : 0
    if (run.begin(view, active, nowMs, wallMs, explains, llm)) return run
    this.#idle.push(run)
    return undefined
  }

  #take(run: Run): Outcome | Promise<Outcome> {
    const { charges } = run.group
    return charges.length === 0 || this.#store.takeAll(charges, run.nowMs, run.wallMs)
  }

  /** A store that cannot tell has no objection: it will be asked again. */
  #afterCheck(run: Run, fits: Outcome): Rejected | undefined {
    if (fits === false) return this.#reject(run)
    this.#idle.push(run)
    return undefined
  }

  #afterEnforcing(run: Run, taken: Outcome): Decision | Promise<Decision> {
    if (taken === false) return this.#reject(run)
    if (taken === 'unavailable') {
      this.#idle.push(run)
      return NO_STORE
    }
    if (run.llm !== undefined) run.hold(run.group)
    run.limit = mostConstrained(run.group, run.wallMs)
    return this.#simulate(run)
  }

  /** Each shadow policy is an all-or-nothing simulation of its own, on counters of its own. A store far away is asked about all at once. */
  #simulate(run: Run): Decision | Promise<Decision> {
    let asked: { readonly group: Group; readonly taken: Outcome | Promise<Outcome> }[] | undefined
    for (let i = 0; i < run.matches.count; i++) {
      const policy = run.matches.policies[i]!
      if (!policy.isShadow) continue
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
    else if (taken === true && run.llm !== undefined) run.hold(group)
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
      reservation: run.holds.length === 0 ? undefined : { active: run.active, holds: run.holds },
      policy: rule?.policy,
      rule,
      wouldRejects: run.wouldRejects,
      missingKeys: run.missingKeys,
      matchedPolicies: run.matches.count,
      descriptors: run.explain(rule),
    }
    this.#idle.push(run)
    return decision as Allowed | Rejected
  }
}
