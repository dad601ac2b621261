import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import { canOverdraw } from '../../limiter/limit.ts'
import type { PlanPolicy, PlanRule } from '../../policy/plan.ts'
import { ChargeResults, type Taken } from '../../store/charges.ts'
import type { CounterStore, Outcome } from '../../store/counter-store.ts'
import { type Clock, WallTime } from '../../time/clock.ts'
import type { ActivePlan } from '../active-plan.ts'
import { allowed, blocked, longestRejection, mostConstrained, NO_STORE, rejected } from '../conclusion.ts'
import type { Refused, WouldReject } from '../decision.ts'
import type { CallerWatch } from '../watchers.ts'
import type { LimitCall, LimitResult } from './descriptor-call.ts'
import { DescriptorRun } from './descriptor-run.ts'
import { MergedGroup } from './descriptor-status.ts'

/** The steps from a call of the rate limit service to its decision, with a given plan. */
export class DescriptorEvaluator {
  readonly #store: CounterStore
  readonly #wallTime: WallTime
  readonly #callerWatch: CallerWatch | undefined
  /** A store in memory needs only one run. */
  #idle: DescriptorRun | undefined

  constructor(store: CounterStore, clock: Clock, callerWatch: CallerWatch | undefined) {
    this.#store = store
    this.#wallTime = new WallTime(clock)
    this.#callerWatch = callerWatch
  }

  /** Drops everything kept for an earlier plan. */
  turnTo(active: ActivePlan | undefined): void {
    if (this.#idle?.active !== active) this.#idle = undefined
  }

  /** Takes for all descriptors, or for none. Returns a promise only if the store does. */
  decide(active: ActivePlan, call: LimitCall, nowMs: number): LimitResult | Promise<LimitResult> {
    this.turnTo(active)
    const run = this.#idle ?? new DescriptorRun()
    this.#idle = undefined
    run.begin(call, active, nowMs, this.#wallTime.at(nowMs))
    if (run.isShadowed) return this.#afterTaken(run, true)
    const block = run.findBlock()
    if (block !== undefined) return this.#block(run, block)
    run.charge(run.group)
    const taken = takeHits(this.#store, run.group, run)
    return taken instanceof Promise ? taken.then((later) => this.#afterTaken(run, later)) : this.#afterTaken(run, taken)
  }

  #afterTaken(run: DescriptorRun, taken: Outcome): LimitResult | Promise<LimitResult> {
    if (taken === 'unavailable') return this.#refuse(run, NO_STORE)
    this.#callerWatch?.onLevels(run.group, run.active!.plan, run.nowMs)
    if (taken === false) return this.#reject(run)
    if (!run.chargeGivenBack()) return this.#simulate(run)
    const given = giveBackHits(this.#store, run.givenBack, run)
    return given instanceof Promise ? given.then((later) => this.#afterGivenBack(run, later)) : this.#afterGivenBack(run, given)
  }

  #afterGivenBack(run: DescriptorRun, given: Outcome): LimitResult | Promise<LimitResult> {
    if (given !== 'unavailable') return this.#simulate(run)
    if (run.group.ruleCount === 0 && !run.isShadowed) return this.#refuse(run, NO_STORE)
    // Hits that the same call took stay taken.
    run.forgetGivenBack()
    return this.#simulate(run)
  }

  /** Simulates shadow policies like `Evaluator`, with a new group for each. */
  #simulate(run: DescriptorRun): LimitResult | Promise<LimitResult> {
    run.limit = mostConstrained(run.group)
    const policies = run.shadowPolicies()
    if (policies.length === 0) return this.#allow(run)
    const simulations = policies.map((policy) => this.#simulateOne(run, policy))
    if (!simulations.some((simulation) => simulation instanceof Promise)) {
      return this.#afterSimulated(run, simulations as (WouldReject | undefined)[])
    }
    return Promise.all(simulations).then((all) => this.#afterSimulated(run, all))
  }

  #simulateOne(run: DescriptorRun, policy: PlanPolicy): WouldReject | undefined | Promise<WouldReject | undefined> {
    const block = run.findBlock(policy)
    if (block !== undefined) return { rule: block, reason: 'blocked' }
    const group = new MergedGroup()
    run.charge(group, policy)
    const taken = takeHits(this.#store, group, run)
    const conclude = (outcome: Outcome) => {
      if (outcome !== 'unavailable') this.#callerWatch?.onLevels(group, run.active!.plan, run.nowMs)
      return outcome === false ? longestRejection(group) : undefined
    }
    return taken instanceof Promise ? taken.then(conclude) : conclude(taken)
  }

  #afterSimulated(run: DescriptorRun, simulations: readonly (WouldReject | undefined)[]): LimitResult {
    run.wouldRejects = simulations.filter((one) => one !== undefined)
    return this.#allow(run)
  }

  #block(run: DescriptorRun, rule: PlanRule): LimitResult {
    this.#callerWatch?.onReject(rule, run.blockedValues(), 0, run.nowMs)
    return this.#end(run, { decision: blocked(run, rule), statuses: run.blockedStatuses() })
  }

  #reject(run: DescriptorRun): LimitResult {
    const rejection = longestRejection(run.group)
    const { values, valuesFrom } = run.group.charges
    this.#callerWatch?.onReject(rejection.rule, values, valuesFrom[rejection.firstRow]!, run.nowMs)
    return this.#end(run, { decision: rejected(run, rejection), statuses: run.statuses() })
  }

  #allow(run: DescriptorRun): LimitResult {
    return this.#end(run, { decision: allowed(run), statuses: run.statuses() })
  }

  #refuse(run: DescriptorRun, refused: Refused): LimitResult {
    return this.#end(run, { decision: refused, statuses: [] })
  }

  #end(run: DescriptorRun, result: LimitResult): LimitResult {
    run.end()
    this.#idle = run
    return result
  }
}

/** The time of a call, on both clocks. */
interface TakingMoment {
  readonly nowMs: number
  readonly wallMs: number
}

/**
 * Takes what descriptors cost, all or nothing, and leaves levels and waits in the group's results. A row of cost 0 asks whether one hit would pass. A limit
 * that can be overdrawn never stops a take: it is charged even while in debt, and the outcome is then false.
 */
function takeHits(store: CounterStore, group: MergedGroup, moment: TakingMoment): Outcome | Promise<Outcome> {
  const { charges, results } = group
  const { nowMs, wallMs } = moment
  if (charges.length === 0) return true
  const takes = hasTakes(group)
  const asked = raiseAsked(group)
  if (!takes) return store.checkAll(charges, results, nowMs, wallMs)
  // Rows that only ask are checked first, because the store cannot check some rows and take others in one call.
  const fits = asked.length === 0 || store.checkAll(charges, results, nowMs, wallMs)
  return after(fits, (outcome) => afterAsked(store, group, asked, outcome, moment))
}

/** Gives hits back, or does nothing if the store is unavailable. Levels are those afterwards. */
function giveBackHits(store: CounterStore, group: MergedGroup, moment: TakingMoment): Outcome | Promise<Outcome> {
  const { charges, results } = group
  const amounts = charges.costs.slice(0, charges.length)
  charges.costs.fill(0, 0, charges.length)
  // A take of cost 0 changes nothing, and returns when and from which counters it would take.
  const found = store.takeAll(charges, results, moment.nowMs, moment.wallMs)
  return after(found, (outcome) => {
    charges.costs.set(amounts)
    if (outcome === 'unavailable') return outcome
    for (let row = 0; row < charges.length; row++) {
      const { limit } = charges.counters[row]!
      results.levels[row] = Math.min(results.levels[row]! + amounts[row]!, algorithmOf(limit).size(limit))
      results.waitsMs[row] = 0
    }
    const done = store.settleAll(charges, { ...takenOf(results), isTakerUnknown: true }, moment.nowMs, moment.wallMs)
    return done instanceof Promise ? done.then(() => true) : true
  })
}

function afterAsked(
  store: CounterStore,
  group: MergedGroup,
  asked: readonly number[],
  outcome: Outcome,
  moment: TakingMoment,
): Outcome | Promise<Outcome> {
  for (const row of asked) group.charges.costs[row] = 0
  if (outcome === 'unavailable' || (outcome === false && isRefused(group))) return outcome
  const taken = store.takeAll(group.charges, group.results, moment.nowMs, moment.wallMs)
  return after(taken, (later) => (later === false && !isRefused(group) ? chargeInDebt(store, group, moment) : later))
}

/** Whether a row that can stop a take does so. */
function isRefused(group: MergedGroup): boolean {
  const { charges, results } = group
  for (let row = 0; row < charges.length; row++) if (results.waitsMs[row]! > 0 && !group.isForced(row)) return true
  return false
}

/** Called when only debts are in the way: takes the other rows, all or nothing, and then charges those that can be overdrawn. */
function chargeInDebt(store: CounterStore, group: MergedGroup, moment: TakingMoment): Outcome | Promise<Outcome> {
  const { nowMs, wallMs } = moment
  const [forced, others] = [group.rowsWhere((row) => group.isForced(row)), group.rowsWhere((row) => !group.isForced(row))]
  const results = new ChargeResults()
  const taken = others.charges.length === 0 || store.takeAll(others.charges, results, nowMs, wallMs)
  return after(taken, (outcome) => {
    if (outcome === 'unavailable') return outcome
    for (const [i, row] of others.rows.entries()) {
      group.results.levels[row] = results.levels[i]!
      group.results.waitsMs[row] = results.waitsMs[i]!
    }
    if (outcome === false) return false
    for (const [i, row] of forced.rows.entries()) {
      const cost = forced.charges.costs[i]!
      const { limit } = forced.charges.counters[i]!
      forced.charges.costs[i] = -cost
      const level = group.results.levels[row]! - cost
      if (group.results.waitsMs[row]! > 0) group.results.waitsMs[row] = algorithmOf(limit).waitMs(limit, level, 0, group.results.wallMs)
      group.results.levels[row] = level
    }
    const done = store.settleAll(forced.charges, takenOf(group.results), nowMs, wallMs)
    return done instanceof Promise ? done.then(() => false) : false
  })
}

function takenOf({ wallMs, momentMs, takenFrom }: ChargeResults): Taken {
  return { wallMs, momentMs, from: takenFrom }
}

function hasTakes({ charges }: MergedGroup): boolean {
  for (let row = 0; row < charges.length; row++) if (charges.costs[row]! > 0) return true
  return false
}

const NONE: readonly number[] = []

/** Raises rows of cost 0 to one hit and returns them, except those that can be overdrawn, which pass or fail by their level anyway. */
function raiseAsked({ charges }: MergedGroup): readonly number[] {
  let asked: number[] | undefined
  for (let row = 0; row < charges.length; row++) {
    if (charges.costs[row] !== 0 || canOverdraw(charges.counters[row]!.limit)) continue
    asked ??= []
    asked.push(row)
    charges.costs[row] = 1
  }
  return asked ?? NONE
}

/** Calls `next` at once unless the outcome is a promise. */
function after(outcome: Outcome | Promise<Outcome>, next: (outcome: Outcome) => Outcome | Promise<Outcome>): Outcome | Promise<Outcome> {
  return outcome instanceof Promise ? outcome.then(next) : next(outcome)
}
