import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import type { OverridesChange } from '../overrides/override.ts'
import { identityName, namedLimits } from '../policy/compile.ts'
import type { Plan, PlanPolicy, PlanRule } from '../policy/plan.ts'
import { defaultIdentification, type Identification } from '../request/descriptors.ts'
import type { RequestView } from '../request/view.ts'
import { ChargeResults, Charges, type Taken } from '../store/charges.ts'
import type { CounterStore, Outcome } from '../store/counter-store.ts'
import type { Clock } from '../time/clock.ts'
import { type ActivePlan, type LimitAges, limitAges, openPlan, PlanSwitch } from './active-plan.ts'
import { type CallerDigest, type DecideOptions, NO_OPTIONS, type OpenOptions, type StreamBody } from './decide-options.ts'
import type { Decision, Refused } from './decision.ts'
import type { LimitCall, LimitResult } from './descriptors/descriptor-call.ts'
import { DescriptorEvaluator } from './descriptors/descriptor-evaluator.ts'
import { Evaluation } from './evaluation.ts'
import { Evaluator } from './evaluator.ts'
import type { Explanation, StepwiseExplanation } from './explain/explanation.ts'
import { type CounterName, findCounters, type Inspection, inspectCounters } from './explain/inspection.ts'
import type { OpenReservations } from './open-reservations.ts'
import { PlanOverrides } from './overrides/override-index.ts'
import { type LocatedCharge, locatedCharges, locatedRows, locatedRule, type Reservation, type ReservedCharge } from './reservation.ts'
import { type ReservedPart, ReservedParts } from './reserved-parts.ts'
import type { CallerWatch, OnBudgetWarning } from './watchers.ts'

export interface EngineOptions {
  readonly store: CounterStore
  readonly clock: Clock
  readonly identification?: Identification
  /** Shared by threads that switch plans together. */
  readonly planSwitch?: PlanSwitch
  /** Called when a caller reaches a share of a budget that should be warned about, in enforcing and in shadow policies. Must not throw. */
  readonly onBudgetWarning?: OnBudgetWarning
  /** Observes callers that are rejected, and what the others have left. */
  readonly callerWatch?: CallerWatch | undefined
  /** Tracks what requests in flight have reserved. Set only if this process settles all of them. */
  readonly openReservations?: OpenReservations | undefined
  /** Identifies callers in overrides of rules keyed by credentials. Without it, such overrides match nobody. */
  readonly callerDigest?: CallerDigest
}

/** Stands for the rules before the first plan: overrides may be known by then, and fit none. */
const NO_RULES = { policiesById: new Map<string, PlanPolicy>() }
/**
 * What became of a reservation that was to grow: a part was granted; its windows refused it; the store is unavailable; nothing was asked, because the rule
 * does not limit its caller any more; or it was granted after the reservation was settled, and given back.
 */
export type Growth = 'granted' | 'refused' | 'unavailable' | 'not_enforced' | 'too_late'

const NO_BUNDLE: Refused = { action: 'refuse', reason: 'no_bundle_loaded' }

/** Decides whether a request may proceed. It is independent of sockets, headers and logs. */
export class Engine {
  readonly #store: CounterStore
  readonly #clock: Clock
  readonly #evaluator: Evaluator
  readonly #descriptorEvaluator: DescriptorEvaluator
  readonly #plans: PlanSwitch
  readonly #onBudgetWarning: OnBudgetWarning
  readonly #callerDigest: CallerDigest
  readonly #open: OpenReservations | undefined
  #ages: LimitAges | undefined
  /** Overrides of the plan prepared last, with which the next plan starts. */
  #overrides: PlanOverrides

  constructor(options: EngineOptions) {
    this.#store = options.store
    this.#clock = options.clock
    this.#onBudgetWarning = options.onBudgetWarning ?? (() => {})
    this.#callerDigest = options.callerDigest ?? (() => '')
    this.#open = options.openReservations
    const identification = options.identification ?? defaultIdentification()
    this.#evaluator = new Evaluator(
      options.store,
      options.clock,
      identification,
      this.#onBudgetWarning,
      options.callerWatch,
      options.openReservations,
    )
    this.#descriptorEvaluator = new DescriptorEvaluator(options.store, options.clock, options.callerWatch)
    this.#plans = options.planSwitch ?? new PlanSwitch()
    this.#overrides = new PlanOverrides(NO_RULES, this.#store, this.#callerDigest)
  }

  get plan(): Plan | undefined {
    const { active } = this.#plans
    this.#evaluator.turnTo(active)
    this.#descriptorEvaluator.turnTo(active)
    return active?.plan
  }

  /** The plan with its counters and overrides. */
  get active(): ActivePlan | undefined {
    return this.#plans.active
  }

  /** Activates a plan from the next decision on. Pending decisions keep theirs. */
  activate(plan: Plan): void {
    const generation = this.#plans.generation + 1
    this.#ages = limitAges(namedLimits(plan.counters), this.#clock.nowMs(), this.#ages)
    for (const _step of this.prepare(generation, plan, this.#ages.sincesMs));
    this.#plans.turnTo(generation)
  }

  /** Prepares a plan in small steps, one plan at a time. It becomes active when the switch is turned to its generation. */
  *prepare(generation: number, plan: Plan, sincesMs: Float64Array): Generator<void> {
    const opened = yield* openPlan(plan, this.#store, sincesMs, this.#callerDigest)
    const before = this.#overrides
    // The plan is added before its overrides are copied, so that changes made meanwhile reach it too.
    this.#plans.add(generation, opened)
    for (const timed of before.list()) {
      if (before.has(timed)) opened.overrides.change({ put: [timed], gone: [] })
      yield
    }
    this.#overrides = opened.overrides
  }

  /** Changes the overrides that are or will be in force. Each applies from its own moment on, to the decisions of all threads at that time. */
  changeOverrides(change: OverridesChange): void {
    const all = new Set(Array.from(this.#plans.all(), ({ overrides }) => overrides))
    for (const overrides of all.add(this.#overrides)) overrides.change(change)
  }

  /** Whether an override puts all policies in shadow mode now. */
  get isShadowed(): boolean {
    return this.#plans.active?.overrides.index?.isShadowed(this.#clock.nowMs()) ?? false
  }

  /** Decides and takes in one step. Returns a promise only if the store does. Throws a RangeError if `given` is not an amount that can be taken. */
  decide(view: RequestView, options: OpenOptions & DecideOptions = NO_OPTIONS): Decision | Promise<Decision> {
    const { active } = this.#plans
    return active === undefined ? NO_BUNDLE : this.#evaluator.decide(this.#evaluator.begin(active, view, options), options)
  }

  /** Opens an evaluation for callers that decide in several steps with one plan. Returns undefined if there is no plan yet. */
  open(view: RequestView, options: OpenOptions = NO_OPTIONS): Evaluation | undefined {
    const { active } = this.#plans
    return active && new Evaluation(this.#evaluator, this.#evaluator.begin(active, view, options))
  }

  /** Decides a call of the rate limit service: takes for all of its descriptors, or for none. Returns a promise only if the store does. */
  decideDescriptors(call: LimitCall, nowMs = this.#clock.nowMs()): LimitResult | Promise<LimitResult> {
    const { active } = this.#plans
    return active === undefined ? { decision: NO_BUNDLE, statuses: [] } : this.#descriptorEvaluator.decide(active, call, nowMs)
  }

  /** Whether a block of the active plan, or an override that blocks one of its rules, may end streams in progress. */
  get cutsStreams(): boolean {
    return this.#plans.active?.plan.cutsStreams === true || this.cutsStreamsByOverride
  }

  get cutsStreamsByOverride(): boolean {
    return this.#plans.active?.overrides.index?.cutsStreams ?? false
  }

  /** Returns the rule, if any, that blocks this request, in the active plan or by an override, and ends streams in progress. */
  findStreamCut(view: RequestView, body: StreamBody): PlanRule | undefined {
    const { active } = this.#plans
    if (active === undefined || !this.cutsStreams) return undefined
    return this.#evaluator.findStreamCut(this.#evaluator.begin(active, view, NO_OPTIONS), body)
  }

  /** Returns what `decide` would return now, and why. Takes nothing. */
  explain(view: RequestView, options: OpenOptions & DecideOptions = NO_OPTIONS): Explanation | Promise<Explanation> {
    const explanation = this.explainStepwise(view, options)
    return explanation instanceof Promise ? explanation.then(whole) : whole(explanation)
  }

  /** Explains lazily, policy by policy, because a bundle may have thousands of them. */
  explainStepwise(
    view: RequestView,
    options: OpenOptions & DecideOptions = NO_OPTIONS,
  ): StepwiseExplanation | Promise<StepwiseExplanation> {
    const evaluation = this.open(view, { ...options, looks: true })
    if (evaluation === undefined) return { decision: NO_BUNDLE, policies: [] }
    const decision = evaluation.decide(options)
    if (decision instanceof Promise) return decision.then((later) => described(evaluation, later, options))
    return described(evaluation, decision, options)
  }

  /**
   * Corrects what a rule reserved to `amount`, in the counters that it was taken from. Call it once for each charge. A rule that is no longer in the bundle
   * is settled all the same.
   */
  settle(reserved: ReservedCharge, amount: number): void | Promise<void> {
    const { growth } = reserved
    const done =
      growth === undefined ? this.#correct(reserved, reserved, reserved.amount - amount) : this.#correctParts(reserved, growth, amount)
    if (this.#open === undefined) return done
    // The reservation stays open until the amount is given back; otherwise a reject in between would report a wait until the end of the window.
    if (done instanceof Promise) return done.finally(() => this.#open!.close(reserved))
    this.#open.close(reserved)
  }

  /**
   * Asks for `amount` more for a reservation: for a further part, from all counters of its rule or from none, under the limits that a settlement would find
   * now. Its windows grant that or refuse it; its bucket is charged along. Returns a promise only if the store does. If the reservation is settled before the
   * answer comes, what was granted is given back.
   */
  grow(reserved: ReservedCharge, amount: number): Growth | Promise<Growth> {
    const nowMs = this.#clock.nowMs()
    if (!this.#limitsNow(reserved, nowMs)) return 'not_enforced'
    reserved.growth ??= new ReservedParts(reserved)
    const charges = this.#chargesOf(reserved, amount, nowMs)
    const results = new ChargeResults()
    const outcome = this.#store.takeAll(charges, results, nowMs, this.#clock.wallMs(), 'growth')
    if (outcome instanceof Promise) return outcome.then((later) => this.#afterGrowth(reserved, amount, later, results))
    return this.#afterGrowth(reserved, amount, outcome, results)
  }

  #afterGrowth(reserved: ReservedCharge, amount: number, outcome: Outcome, results: ChargeResults): Growth | Promise<Growth> {
    if (outcome !== true) return outcome === false ? 'refused' : 'unavailable'
    const { rule, values } = reserved
    const growth = reserved.growth!
    if (results.hasWarnings) {
      // Even if it is given back: the store has noted the warning, and would not report it again.
      for (const percent of results.warnings) if (percent > 0) this.#onBudgetWarning({ rule, values, percent })
    }
    const part = { amount, taken: { wallMs: results.wallMs, momentMs: results.momentMs, from: results.takenFrom } }
    if (growth.isSettled) {
      const givenBack = this.#correct(reserved, part, amount)
      return givenBack instanceof Promise ? givenBack.then(() => 'too_late') : 'too_late'
    }
    this.#open?.openPart(reserved, part)
    const dropped = growth.add(part, (a, b) => isSameWindow(rule, a, b))
    if (dropped !== undefined) this.#open?.closePart(reserved, dropped)
    return 'granted'
  }

  /** Charges `amount` more for a reservation, whether or not there is enough: as a further part of what its decision took, where and when it took that. */
  overdraw(reserved: ReservedCharge, amount: number): void | Promise<void> {
    const part = { amount, taken: reserved.taken }
    reserved.growth ??= new ReservedParts(reserved)
    this.#open?.openPart(reserved, part)
    const dropped = reserved.growth.add(part, (a, b) => isSameWindow(reserved.rule, a, b))
    if (dropped !== undefined) this.#open?.closePart(reserved, dropped)
    return this.#correct(reserved, part, -amount)
  }

  /** Whether the rule limits its caller now: the active plan still has its windows, and no override suspends it or puts all policies in shadow mode. */
  #limitsNow({ rule, values }: ReservedCharge, nowMs: number): boolean {
    const { active } = this.#plans
    const index = active?.overrides.index
    if (active === undefined || index?.isShadowed(nowMs) === true) return false
    return rule.counters.every(
      (counter) =>
        !algorithmOf(counter.limit).hasWindows ||
        (active.byIdentity.has(identityName(counter)) && index?.suspends(counter, values, nowMs) !== true),
    )
  }

  #correctParts(reserved: ReservedCharge, growth: ReservedParts, amount: number): void | Promise<void> {
    growth.isSettled = true
    const pending: Promise<void>[] = []
    for (const [part, back] of growth.corrections(amount)) {
      const done = this.#correct(reserved, part, back)
      if (done instanceof Promise) pending.push(done)
    }
    if (pending.length > 0) return Promise.all(pending).then(() => {})
  }

  /** Gives `back` to the counters that a part was taken from, or charges it if it is below zero. */
  #correct(reserved: ReservedCharge, { taken }: ReservedPart, back: number): void | Promise<void> {
    if (back === 0) return
    const { rule, values } = reserved
    const nowMs = this.#clock.nowMs()
    const charges = this.#chargesOf(reserved, back, nowMs)
    return this.#store.settleAll(charges, taken, nowMs, this.#clock.wallMs(), (_row, percent) =>
      this.#onBudgetWarning({ rule, values, percent }),
    )
  }

  /**
   * Renews a hold, so that it counts for another `hold_seconds`. Returns when and where it was taken this time, which its next renewal or its settlement
   * must pass on. A renewal that comes too late takes again, above the limit if need be.
   */
  renew(hold: ReservedCharge): Taken | Promise<Taken> {
    const nowMs = this.#clock.nowMs()
    return this.#store.renewAll(this.#chargesOf(hold, hold.amount, nowMs), hold.taken, nowMs, this.#clock.wallMs())
  }

  /**
   * Describes what a reservation took from which counters, for a settlement that has neither its plan nor its values. `callerDigest` identifies callers in
   * warnings and overrides.
   */
  locate(reservation: Reservation, callerDigest: CallerDigest): readonly LocatedCharge[] {
    return locatedCharges(reservation, this.#store, callerDigest)
  }

  /**
   * Settles like `settle`. `taker` is the instance that took, or undefined if it has lost its own count. Returns false if it is unknown whether this was
   * done.
   */
  settleLocated(charge: LocatedCharge, amount: number, taker: string | undefined): boolean | Promise<boolean> {
    if (charge.amount === amount) return true
    const { active } = this.#plans
    const nowMs = this.#clock.nowMs()
    const rows = locatedRows(charge, charge.amount - amount, active, this.#store, nowMs)
    return this.#store.settleLocated(rows, taker, charge.taken, nowMs, this.#clock.wallMs(), (row, percent) => {
      const rule = locatedRule(active, charge.counters[row]!)
      if (rule !== undefined) this.#onBudgetWarning({ rule, values: [], caller: charge.caller, percent })
    })
  }

  /** Renews like `renew`; `taker` is as in `settleLocated`. */
  renewLocated(hold: LocatedCharge, taker: string | undefined): Taken | Promise<Taken> {
    const nowMs = this.#clock.nowMs()
    const rows = locatedRows(hold, hold.amount, this.#plans.active, this.#store, nowMs)
    return this.#store.renewLocated(rows, taker, hold.taken, nowMs, this.#clock.wallMs())
  }

  /** Returns the state of one rule's counters for one caller. Takes nothing. */
  inspect(name: CounterName): Inspection | Promise<Inspection> {
    const nowMs = this.#clock.nowMs()
    const found = findCounters(this.#plans.active, name, nowMs)
    if (typeof found === 'string') return { ok: false, error: found }
    return inspectCounters(found, this.#store, nowMs, this.#clock.wallMs(), this.#open)
  }

  /** Resets the counters as if nothing had ever been taken, and returns their state. Throws, or rejects, if the store cannot. */
  reset(name: CounterName): Inspection | Promise<Inspection> {
    const found = findCounters(this.#plans.active, name, this.#clock.nowMs())
    if (typeof found === 'string') return { ok: false, error: found }
    // Other threads may use a wall time up to a millisecond ahead, and what they have taken must count as before the reset.
    const done = this.#store.resetAll(found.charges, this.#clock.nowMs(), Math.floor(this.#clock.wallMs()) + 1)
    const inspect = () => inspectCounters(found, this.#store, this.#clock.nowMs(), this.#clock.wallMs(), this.#open)
    return done instanceof Promise ? done.then(inspect) : inspect()
  }

  /** Returns a row for each counter that was taken from, as the active plan and its overrides limit it now. */
  #chargesOf({ rule, active: taker, values }: ReservedCharge, cost: number, nowMs: number): Charges {
    const charges = new Charges()
    const { active } = this.#plans
    for (const counter of rule.counters) {
      for (const value of values) charges.addValue(value)
      const taken = taker.counters[counter.index]!
      const current = taker === active ? taken : active?.byIdentity.get(identityName(counter))
      const own = current && active?.overrides.index?.counterOf(counter, values, nowMs)
      charges.add(own ?? current ?? taken, cost)
    }
    return charges
  }
}

/** Whether both takes were from the same window of each of the rule's counters, and from the same store. */
function isSameWindow({ counters }: PlanRule, a: Taken, b: Taken): boolean {
  return (
    a.from === b.from &&
    counters.every(({ limit }) => algorithmOf(limit).windowAt(limit, a.wallMs) === algorithmOf(limit).windowAt(limit, b.wallMs))
  )
}

function described(evaluation: Evaluation, decision: Decision, options: DecideOptions): StepwiseExplanation | Promise<StepwiseExplanation> {
  const policies = evaluation.describe(options)
  return policies instanceof Promise ? policies.then((later) => ({ decision, policies: later })) : { decision, policies }
}

function whole({ decision, policies }: StepwiseExplanation): Explanation {
  return { decision, policies: [...policies] }
}
