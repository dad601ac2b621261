import { type Clock, WallTime } from '../clock.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { Identification } from '../request/descriptors.ts'
import type { RequestView } from '../request/view.ts'
import type { CounterStore, Outcome } from '../store/counter-store.ts'
import type { ActivePlan } from './active-plan.ts'
import { blockIn, findBlock, findStreamCut } from './blocks.ts'
import { type OnBudgetWarning, warningsOf } from './budget-warning.ts'
import type { CallerWatch } from './caller-watch.ts'
import { chargePolicy } from './charging.ts'
import { allowed, blocked, NO_HOST, NO_STORE, REPEATED_FIELD, rejected } from './conclusion.ts'
import type { Allowed, Decision, Refused, Rejected } from './decision.ts'
import { explain, type StepwiseExplanation } from './explanation.ts'
import { Group } from './group.ts'
import type { OpenReservations } from './open-reservations.ts'
import type { BodyNeed, DecideOptions, OpenOptions, StreamBody } from './question.ts'
import type { Run } from './run.ts'
import { RunPool } from './run-pool.ts'
import { awaitSettlements, longestRejection, mostConstrained } from './verdict.ts'

/** The steps from a request to its decision, with a given plan. */
export class Evaluator {
  readonly #store: CounterStore
  readonly #clock: Clock
  readonly #wallTime: WallTime
  readonly #runs: RunPool
  readonly #onBudgetWarning: OnBudgetWarning
  readonly #callerWatch: CallerWatch | undefined
  readonly #open: OpenReservations | undefined

  constructor(
    store: CounterStore,
    clock: Clock,
    identification: Identification,
    onBudgetWarning: OnBudgetWarning,
    callerWatch: CallerWatch | undefined,
    open: OpenReservations | undefined,
  ) {
    this.#store = store
    this.#clock = clock
    this.#wallTime = new WallTime(clock)
    this.#runs = new RunPool(identification)
    this.#onBudgetWarning = onBudgetWarning
    this.#callerWatch = callerWatch
    this.#open = open
  }

  /** Drops all that is kept of an earlier plan. */
  turnTo(active: ActivePlan | undefined): void {
    this.#runs.turnTo(active)
  }

  /** A run for the request, routed by the plan. */
  begin(active: ActivePlan, view: RequestView, options: OpenOptions): Run {
    this.#runs.turnTo(active)
    const run = this.#runs.take()
    run.begin(view, active, options)
    return run
  }

  /** Takes, and returns the run to the pool. */
  decide(run: Run, options: DecideOptions): Decision | Promise<Decision> {
    run.setBody(options.body)
    this.#setTime(run, options.nowMs)
    if (run.isShadowed) return this.#simulateAll(run)
    if (run.lacksHost) return this.#refuse(run, NO_HOST)
    const block = findBlock(run)
    if (block !== undefined) return this.#block(run, block, this.#callerWatch)
    this.#chargeEnforcing(run, false)
    if (run.hasRepeated) return this.#refuse(run, REPEATED_FIELD)
    const taken = this.#take(run)
    return taken instanceof Promise ? taken.then((later) => this.#afterEnforcing(run, later)) : this.#afterEnforcing(run, taken)
  }

  needsBody(run: Run, nowMs?: number): BodyNeed {
    const { plan } = run.active!
    if (!plan.needsBody) return 'no'
    this.#setTime(run, nowMs)
    run.isBodyUnread = true
    run.forgetBodyNeed()
    const { policies, count } = run.matches
    if (!run.isShadowed) {
      if (run.lacksHost || findBlock(run) !== undefined) return 'no'
      for (let i = 0; i < count; i++) if (policies[i]!.needsBody && !policies[i]!.isShadow) chargePolicy(run, policies[i]!, true)
      // A request that will be refused needs no body.
      if (run.hasRepeated) return 'no'
    }
    for (let i = 0; i < count; i++) {
      const policy = policies[i]!
      if (policy.needsBody && run.simulates(policy) && !run.isAmbiguous(policy, true)) chargePolicy(run, policy, true)
    }
    return run.bodyNeed
  }

  /** Checks the rules that need no body, and takes nothing. A rejection returns the run to the pool. `isForOperator`: nobody was rejected. */
  precheck(run: Run, isForOperator: boolean): Rejected | Refused | undefined | Promise<Rejected | undefined> {
    const watch = isForOperator ? undefined : this.#callerWatch
    this.#setTime(run, undefined)
    if (run.isShadowed) return undefined
    if (run.lacksHost) return this.#refuse(run, NO_HOST)
    run.isBodyUnread = true
    const block = findBlock(run)
    if (block !== undefined) return this.#block(run, block, watch)
    this.#chargeEnforcing(run, true)
    if (run.hasRepeated) return this.#refuse(run, REPEATED_FIELD)
    const { charges, results } = run.group
    const fits = charges.length === 0 || this.#store.checkAll(charges, results, run.nowMs, run.wallMs, isForOperator)
    return fits instanceof Promise ? fits.then((later) => this.#afterCheck(run, later, watch)) : this.#afterCheck(run, fits, watch)
  }

  /** What would be decided, and why. Takes nothing, and the run can be continued. */
  explain(run: Run, options: DecideOptions): StepwiseExplanation | Promise<StepwiseExplanation> {
    run.setBody(options.body)
    this.#setTime(run, options.nowMs)
    return explain(run, this.#store, this.#open)
  }

  /** The enforcing block that applies and ends streams under way, if there is one. Returns the run to the pool. */
  findStreamCut(run: Run, body: StreamBody): PlanRule | undefined {
    if (body === 'unread') run.isBodyUnread = true
    else run.setBody(body)
    this.#setTime(run, undefined)
    const rule = run.isShadowed ? undefined : findStreamCut(run)
    this.#runs.giveBack(run)
    return rule
  }

  #setTime(run: Run, nowMs: number | undefined): void {
    run.nowMs = nowMs === undefined ? this.#clock.nowMs() : nowMs
    run.wallMs = this.#wallTime.at(run.nowMs)
    const { index } = run.active!.overrides
    run.overrides = index
    run.isShadowed = index?.isShadowed(run.nowMs) ?? false
  }

  #chargeEnforcing(run: Run, isHeadOnly: boolean): void {
    const { policies, count } = run.matches
    for (let i = 0; i < count; i++) if (!policies[i]!.isShadow) chargePolicy(run, policies[i]!, isHeadOnly)
  }

  #refuse(run: Run, refused: Refused): Refused {
    this.#runs.giveBack(run)
    return refused
  }

  #take(run: Run): Outcome | Promise<Outcome> {
    const { charges, results } = run.group
    return charges.length === 0 || this.#store.takeAll(charges, results, run.nowMs, run.wallMs)
  }

  /** An unavailable store rejects nothing here: it will be asked again. */
  #afterCheck(run: Run, fits: Outcome, watch: CallerWatch | undefined): Rejected | undefined {
    return fits === false ? this.#reject(run, watch) : undefined
  }

  #afterEnforcing(run: Run, taken: Outcome): Decision | Promise<Decision> {
    if (taken === 'unavailable') return this.#refuse(run, NO_STORE)
    this.#callerWatch?.onLevels(run.group, run.active!.plan, run.nowMs)
    if (taken === false) return this.#reject(run, this.#callerWatch)
    if (run.active!.plan.hasSettledCosts) this.#reserve(run, run.group)
    this.#open?.open(run.reserved)
    run.limit = mostConstrained(run.group)
    return this.#simulate(run)
  }

  /** No policy enforces: each takes what fits from its own counters, and changes no response. */
  #simulateAll(run: Run): Decision | Promise<Decision> {
    run.limit = undefined
    return this.#simulate(run)
  }

  /** Each shadow policy is an all-or-nothing simulation of its own, on counters of its own. A remote store gets all of them at once. */
  #simulate(run: Run): Decision | Promise<Decision> {
    let asked: Simulation[] | undefined
    for (let i = 0; i < run.matches.count; i++) {
      const policy = run.matches.policies[i]!
      if (!run.simulates(policy)) continue
      const block = blockIn(run, policy)
      // Skipped as a whole: its other rules would count requests that it cannot tell apart.
      if (block === undefined && run.isAmbiguous(policy)) continue
      run.group.clear()
      if (block === undefined) chargePolicy(run, policy, false)
      const taken = block ?? this.#take(run)
      if (asked === undefined && !(taken instanceof Promise)) {
        this.#afterSimulated(run, run.group, taken)
        continue
      }
      asked ??= []
      asked.push({ group: run.group, taken })
      run.group = new Group()
    }
    return asked === undefined ? this.#conclude(run, allowed(run)) : this.#afterAll(run, asked)
  }

  /** In bundle order, whichever result arrived first. */
  async #afterAll(run: Run, asked: readonly Simulation[]): Promise<Decision> {
    const outcomes = await Promise.all(asked.map(({ taken }) => taken))
    for (const [i, { group }] of asked.entries()) this.#afterSimulated(run, group, outcomes[i]!)
    return this.#conclude(run, allowed(run))
  }

  #afterSimulated(run: Run, group: Group, taken: Outcome | PlanRule): void {
    if (typeof taken === 'boolean') this.#callerWatch?.onLevels(group, run.active!.plan, run.nowMs)
    if (typeof taken === 'object') run.addWouldReject({ rule: taken, reason: 'blocked' })
    else if (taken === false) run.addWouldReject(longestRejection(group))
    else if (taken === true) this.#reserve(run, group)
  }

  /** For rules whose cost is settled; only such rules warn. */
  #reserve(run: Run, group: Group): void {
    run.reserve(group)
    if (group.results.hasWarnings) for (const warning of warningsOf(group)) this.#onBudgetWarning(warning)
  }

  #block(run: Run, rule: PlanRule, watch: CallerWatch | undefined): Rejected {
    watch?.onReject(rule, run.limitValues(rule), 0, run.nowMs)
    return this.#conclude(run, blocked(run, rule))
  }

  #reject(run: Run, watch: CallerWatch | undefined): Rejected {
    if (this.#open !== undefined) awaitSettlements(run.group, this.#open)
    const rejection = longestRejection(run.group)
    const { rule, firstRow } = rejection
    const { values, valuesFrom } = run.group.charges
    watch?.onReject(rule, values, valuesFrom[firstRow]!, run.nowMs)
    return this.#conclude(run, rejected(run, rejection))
  }

  #conclude<D extends Allowed | Rejected>(run: Run, decision: D): D {
    this.#runs.giveBack(run)
    return decision
  }
}

/** A shadow policy's part of a decision. */
interface Simulation {
  readonly group: Group
  /** The rule that would block it, where there is one: then the store is not asked. */
  readonly taken: Outcome | Promise<Outcome> | PlanRule
}
