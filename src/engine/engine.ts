import type { OverridesChange } from '../overrides/override.ts'
import { namedLimits } from '../policy/compile.ts'
import type { Plan, PlanPolicy, PlanRule } from '../policy/plan.ts'
import type { CallerVerdict } from '../request/caller.ts'
import { defaultIdentification, type Identification } from '../request/descriptors.ts'
import type { RequestView } from '../request/view.ts'
import type { Taken } from '../store/charges.ts'
import type { CounterStore } from '../store/counter-store.ts'
import type { Clock } from '../time/clock.ts'
import { type ActivePlan, type CallerReaderOf, type LimitAges, limitAges, openPlan, PlanSwitch, readNobody } from './active-plan.ts'
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
import { type LocatedCharge, locatedCharges, type Reservation, type ReservedCharge } from './reservation.ts'
import { type Growth, ReservationChanges } from './reservation-changes.ts'
import type { Unsettled, UnsettledAmount } from './unsettled.ts'
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
  /** Makes what finds out who sends a request, for each plan with `callers`. Without it, nobody is known but those whom the options of a decision name. */
  readonly callerReaderOf?: CallerReaderOf | undefined
}

/** Stands for the rules before the first plan: overrides may be known by then, and fit none. */
const NO_RULES = { policiesById: new Map<string, PlanPolicy>() }
const NO_BUNDLE: Refused = { action: 'refuse', reason: 'no_bundle_loaded' }

/** Decides whether a request may proceed. It is independent of sockets, headers and logs. */
export class Engine {
  readonly #store: CounterStore
  readonly #clock: Clock
  readonly #evaluator: Evaluator
  readonly #descriptorEvaluator: DescriptorEvaluator
  readonly #plans: PlanSwitch
  readonly #reservations: ReservationChanges
  readonly #callerDigest: CallerDigest
  readonly #open: OpenReservations | undefined
  readonly #callerReaderOf: CallerReaderOf
  #ages: LimitAges | undefined
  /** Overrides of the plan prepared last, with which the next plan starts. */
  #overrides: PlanOverrides

  constructor(options: EngineOptions) {
    this.#store = options.store
    this.#clock = options.clock
    this.#callerDigest = options.callerDigest ?? (() => '')
    this.#open = options.openReservations
    this.#callerReaderOf = options.callerReaderOf ?? readNobody
    const identification = options.identification ?? defaultIdentification()
    const onBudgetWarning = options.onBudgetWarning ?? (() => {})
    this.#evaluator = new Evaluator(
      options.store,
      options.clock,
      identification,
      onBudgetWarning,
      options.callerWatch,
      options.openReservations,
    )
    this.#descriptorEvaluator = new DescriptorEvaluator(options.store, options.clock, options.callerWatch)
    this.#plans = options.planSwitch ?? new PlanSwitch()
    this.#reservations = new ReservationChanges(options.store, options.clock, this.#plans, onBudgetWarning, options.openReservations)
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
    const opened = yield* openPlan(plan, this.#store, sincesMs, this.#callerDigest, this.#callerReaderOf)
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

  /** Decides and takes in one step. Returns a promise only if the store does, or while a credential waits for its keys. Throws a RangeError if `given` is not an amount that can be taken. */
  decide(view: RequestView, options: OpenOptions & DecideOptions = NO_OPTIONS): Decision | Promise<Decision> {
    const { active } = this.#plans
    if (active === undefined) return NO_BUNDLE
    const run = this.#evaluator.begin(active, view, options)
    return active.callers === undefined ? this.#evaluator.decide(run, options) : this.#evaluator.identifyAndDecide(run, options)
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

  /**
   * Returns the rule, if any, that blocks this request, in the active plan or by an override, and ends streams in progress. `caller` is who sent it, as its
   * decision found out.
   */
  findStreamCut(view: RequestView, body: StreamBody, caller?: CallerVerdict): PlanRule | undefined {
    const { active } = this.#plans
    if (active === undefined || !this.cutsStreams) return undefined
    return this.#evaluator.findStreamCut(this.#evaluator.begin(active, view, NO_OPTIONS), body, caller)
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
    if (evaluation === undefined) return { decision: NO_BUNDLE, caller: undefined, policies: [] }
    const ended = evaluation.identify()
    const decision =
      ended instanceof Promise ? ended.then((later) => later ?? evaluation.decide(options)) : (ended ?? evaluation.decide(options))
    if (decision instanceof Promise) return decision.then((later) => described(evaluation, later, options))
    return described(evaluation, decision, options)
  }

  // `ReservationChanges` describes and does what follows.

  settle(reserved: ReservedCharge, amount: number): void | Promise<void> {
    return this.#reservations.settle(reserved, amount)
  }

  grow(reserved: ReservedCharge, amount: number): Growth | Promise<Growth> {
    return this.#reservations.grow(reserved, amount)
  }

  settled(): Promise<void> {
    return this.#reservations.settled()
  }

  overdraw(reserved: ReservedCharge, amount: number): void | Promise<void> {
    return this.#reservations.overdraw(reserved, amount)
  }

  /** Notes that a request is in flight that has reserved something, until `noteSettled`. */
  noteUnsettled(unsettled: Unsettled): void {
    this.#reservations.noteUnsettled(unsettled)
  }

  noteSettled(unsettled: Unsettled): void {
    this.#reservations.noteSettled(unsettled)
  }

  /** Calls the listener whenever a request has reserved something. Returns what knows of all that are in flight. */
  watchUnsettled(listener: () => void): Pick<ReservationChanges, 'hasUnsettled' | 'openReservations'> {
    this.#reservations.onUnsettled = listener
    return this.#reservations
  }

  unsettledAmounts(beforeMs: number): Iterable<UnsettledAmount> {
    return this.#reservations.unsettledAmounts(beforeMs)
  }

  renew(hold: ReservedCharge): Taken | Promise<Taken> {
    return this.#reservations.renew(hold)
  }

  /**
   * Describes what a reservation took from which counters, for a settlement that has neither its plan nor its values. `callerDigest` identifies callers in
   * warnings and overrides.
   */
  locate(reservation: Reservation, callerDigest: CallerDigest): readonly LocatedCharge[] {
    return locatedCharges(reservation, this.#store, callerDigest)
  }

  settleLocated(charge: LocatedCharge, amount: number, taker: string | undefined): boolean | Promise<boolean> {
    return this.#reservations.settleLocated(charge, amount, taker)
  }

  renewLocated(hold: LocatedCharge, taker: string | undefined): Taken | Promise<Taken> {
    return this.#reservations.renewLocated(hold, taker)
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
}

function described(evaluation: Evaluation, decision: Decision, options: DecideOptions): StepwiseExplanation | Promise<StepwiseExplanation> {
  const { caller } = evaluation
  const policies = evaluation.describe(options)
  return policies instanceof Promise ? policies.then((later) => ({ decision, caller, policies: later })) : { decision, caller, policies }
}

function whole({ decision, caller, policies }: StepwiseExplanation): Explanation {
  return { decision, caller, policies: [...policies] }
}
