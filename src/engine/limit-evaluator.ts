import { type Clock, WallTime } from '../clock.ts'
import type { PlanPolicy, PlanRule } from '../policy/plan.ts'
import type { CounterStore, Outcome } from '../store/counter-store.ts'
import type { ActivePlan } from './active-plan.ts'
import type { CallerWatch } from './caller-watch.ts'
import { allowed, blocked, NO_STORE, rejected } from './conclusion.ts'
import type { Refused, WouldReject } from './decision.ts'
import type { LimitCall, LimitResult } from './limit-call.ts'
import { LimitRun } from './limit-run.ts'
import { giveBackHits, takeHits } from './limit-taking.ts'
import { MergedGroup } from './merged-group.ts'
import { longestRejection, mostConstrained } from './verdict.ts'

/** The steps from a call of the rate limit service to its decision, with a given plan. */
export class LimitEvaluator {
  readonly #store: CounterStore
  readonly #wallTime: WallTime
  readonly #callerWatch: CallerWatch | undefined
  /** A store in memory needs one run. */
  #idle: LimitRun | undefined

  constructor(store: CounterStore, clock: Clock, callerWatch: CallerWatch | undefined) {
    this.#store = store
    this.#wallTime = new WallTime(clock)
    this.#callerWatch = callerWatch
  }

  /** Drops all that is kept of an earlier plan. */
  turnTo(active: ActivePlan | undefined): void {
    if (this.#idle?.active !== active) this.#idle = undefined
  }

  /** Takes for all descriptors, or for none. Returns a promise only if the store does. */
  decide(active: ActivePlan, call: LimitCall, nowMs: number): LimitResult | Promise<LimitResult> {
    this.turnTo(active)
    const run = this.#idle ?? new LimitRun()
    this.#idle = undefined
    run.begin(call, active, nowMs, this.#wallTime.at(nowMs))
    if (run.isShadowed) return this.#afterTaken(run, true)
    const block = run.findBlock()
    if (block !== undefined) return this.#block(run, block)
    run.charge(run.group)
    const taken = takeHits(this.#store, run.group, run)
    return taken instanceof Promise ? taken.then((later) => this.#afterTaken(run, later)) : this.#afterTaken(run, taken)
  }

  #afterTaken(run: LimitRun, taken: Outcome): LimitResult | Promise<LimitResult> {
    if (taken === 'unavailable') return this.#refuse(run, NO_STORE)
    this.#callerWatch?.onLevels(run.group, run.active!.plan, run.nowMs)
    if (taken === false) return this.#reject(run)
    if (!run.chargeGivenBack()) return this.#simulate(run)
    const given = giveBackHits(this.#store, run.givenBack, run)
    return given instanceof Promise ? given.then((later) => this.#afterGivenBack(run, later)) : this.#afterGivenBack(run, given)
  }

  #afterGivenBack(run: LimitRun, given: Outcome): LimitResult | Promise<LimitResult> {
    if (given !== 'unavailable') return this.#simulate(run)
    if (run.group.ruleCount === 0 && !run.isShadowed) return this.#refuse(run, NO_STORE)
    // What was taken stays taken.
    run.forgetGivenBack()
    return this.#simulate(run)
  }

  /** Each shadow policy is an all-or-nothing simulation of its own, on counters of its own. A remote store gets all of them at once. */
  #simulate(run: LimitRun): LimitResult | Promise<LimitResult> {
    run.limit = mostConstrained(run.group)
    const policies = run.shadowPolicies()
    if (policies.length === 0) return this.#allow(run)
    const simulations = policies.map((policy) => this.#simulateOne(run, policy))
    if (!simulations.some((simulation) => simulation instanceof Promise)) {
      return this.#afterSimulated(run, simulations as (WouldReject | undefined)[])
    }
    return Promise.all(simulations).then((all) => this.#afterSimulated(run, all))
  }

  #simulateOne(run: LimitRun, policy: PlanPolicy): WouldReject | undefined | Promise<WouldReject | undefined> {
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

  #afterSimulated(run: LimitRun, simulations: readonly (WouldReject | undefined)[]): LimitResult {
    run.wouldRejects = simulations.filter((one) => one !== undefined)
    return this.#allow(run)
  }

  #block(run: LimitRun, rule: PlanRule): LimitResult {
    this.#callerWatch?.onReject(rule, run.blockedValues(), 0, run.nowMs)
    return this.#end(run, { decision: blocked(run, rule), statuses: run.blockedStatuses() })
  }

  #reject(run: LimitRun): LimitResult {
    const rejection = longestRejection(run.group)
    const { values, valuesFrom } = run.group.charges
    this.#callerWatch?.onReject(rejection.rule, values, valuesFrom[rejection.firstRow]!, run.nowMs)
    return this.#end(run, { decision: rejected(run, rejection), statuses: run.statuses() })
  }

  #allow(run: LimitRun): LimitResult {
    return this.#end(run, { decision: allowed(run), statuses: run.statuses() })
  }

  #refuse(run: LimitRun, refused: Refused): LimitResult {
    return this.#end(run, { decision: refused, statuses: [] })
  }

  #end(run: LimitRun, result: LimitResult): LimitResult {
    run.end()
    this.#idle = run
    return result
  }
}
