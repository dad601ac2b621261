import type { PlanRule } from '../policy/plan.ts'
import { type CallerVerdict, isVerified } from '../request/caller.ts'
import type { Identification } from '../request/descriptors.ts'
import type { RequestView } from '../request/view.ts'
import type { CounterStore, Outcome } from '../store/counter-store.ts'
import { type Clock, WallTime } from '../time/clock.ts'
import type { ActivePlan } from './active-plan.ts'
import { blockIn, chargeEnforcing, chargePolicy, findBlock, findStreamCut } from './charging.ts'
import {
  allowed,
  awaitSettlements,
  blocked,
  callerReason,
  longestRejection,
  mostConstrained,
  NO_HOST,
  NO_STORE,
  rejected,
  unknownCaller,
} from './conclusion.ts'
import type { BodyFacts, BodyNeed, DecideOptions, OpenOptions, StreamBody } from './decide-options.ts'
import { type Allowed, type Decision, Group, type Refused, type Rejected, type RouteProblem } from './decision.ts'
import { describePolicies, type ExplainedPolicy } from './explain/explanation.ts'
import type { OpenReservations } from './open-reservations.ts'
import { type Run, RunPool } from './run.ts'
import type { SeenCounters } from './seen-counters.ts'
import { isBehind, lengthenWaits, waitOf } from './waiting.ts'
import type { WaitingLines } from './waiting-lines.ts'
import { type CallerWatch, type OnBudgetWarning, warningsOf } from './watchers.ts'

/**
 * The steps from a request to its decision, with a given plan. A decision that takes and one that only looks (`run.seen`) pass the same checks in the same
 * order; looking leaves out whatever would change a counter or be reported.
 */
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

  /** Drops everything kept for an earlier plan. */
  turnTo(active: ActivePlan | undefined): void {
    this.#runs.turnTo(active)
  }

  /** Returns a run for the request, routed by the plan. */
  begin(active: ActivePlan, view: RequestView, options: OpenOptions): Run {
    this.#runs.turnTo(active)
    const run = this.#runs.take()
    run.begin(view, active, options)
    return run
  }

  /**
   * Finds out who sends the request, if the plan says who is known. What refuses or blocks the request whoever sends it comes first, so that no credential is
   * checked for it. Returns what ends the run, and a promise only while a credential waits for its keys. Takes nothing.
   */
  identify(run: Run, nowMs?: number): Ended | Promise<Ended> {
    this.#setTime(run, nowMs)
    const objection = run.isShadowed ? undefined : this.#earlyObjection(run)
    // An explanation says who the caller is, whatever ends the run.
    if (objection !== undefined && run.seen === undefined) return objection
    const caller = run.readCaller()
    if (caller instanceof Promise) return caller.then((later) => this.#afterCaller(run, later, objection))
    return this.#afterCaller(run, caller, objection)
  }

  /** Decides like `decide`, after `identify`. */
  identifyAndDecide(run: Run, options: DecideOptions): Decision | Promise<Decision> {
    const ended = this.identify(run, options.nowMs)
    if (ended instanceof Promise) {
      // Whoever asks may change its options while a credential is checked, and time passes.
      const { body } = options
      return ended.then((later) => later ?? this.#decideRestarted(run, { body }))
    }
    return ended ?? this.#decideRestarted(run, options)
  }

  /** Takes, and returns the run to the pool. A run that only looks does neither. */
  decide(run: Run, options: DecideOptions): Decision | Promise<Decision> {
    run.setBody(options.body)
    this.#setTime(run, options.nowMs)
    if (run.isShadowed) return this.#simulateAll(run)
    const objection = this.#findObjection(run, false)
    if (objection !== undefined) return objection
    const taken = run.lines === undefined || run.lines.isEmpty ? this.#take(run) : this.#takeInTurn(run, run.lines)
    return taken instanceof Promise ? taken.then((later) => this.#afterEnforcing(run, later)) : this.#afterEnforcing(run, taken)
  }

  needsBody(run: Run, nowMs?: number): BodyNeed {
    const { plan } = run.active!
    if (!plan.needsBody) return 'no'
    this.#setTime(run, nowMs)
    run.isBodyUnread = true
    run.forgetBodyNeed()
    // A request that will be refused or blocked needs no body.
    if (!run.isShadowed && this.#objectionTo(run, true, true) !== undefined) return 'no'
    const { policies, count } = run.matches
    for (let i = 0; i < count; i++) {
      const policy = policies[i]!
      if (policy.needsBody && run.simulates(policy) && !run.isAmbiguous(policy, true)) chargePolicy(run, policy, true)
    }
    return run.bodyNeed
  }

  /** Checks the rules that need no body, and takes nothing. A rejection returns the run to the pool. */
  precheck(run: Run): Rejected | Refused | undefined | Promise<Rejected | undefined> {
    this.#setTime(run, undefined)
    if (run.isShadowed) return undefined
    run.isBodyUnread = true
    const objection = this.#findObjection(run, true)
    if (objection !== undefined) return objection
    const fits = this.#check(run)
    return fits instanceof Promise ? fits.then((later) => this.#afterCheck(run, later)) : this.#afterCheck(run, fits)
  }

  /**
   * Describes the policies as a run that only looks has seen them. Counters that its decision did not reach are looked at now; if the steps ended before a
   * decision, that is all of them, with the facts from the body.
   */
  describe(run: Run, options: DecideOptions): Iterable<ExplainedPolicy> | Promise<Iterable<ExplainedPolicy>> {
    const enforcing = run.seen!.hasEnforcing || run.seen!.hasShadows || this.#lookAtEnforcing(run, options)
    const all = enforcing instanceof Promise ? enforcing.then(() => this.#lookAtShadows(run)) : this.#lookAtShadows(run)
    return all instanceof Promise ? all.then(() => describePolicies(run)) : describePolicies(run)
  }

  /** Returns the enforcing block, if any, that applies and ends streams in progress. Returns the run to the pool. */
  findStreamCut(run: Run, body: StreamBody, caller: CallerVerdict | undefined): PlanRule | undefined {
    if (run.active!.callers !== undefined) {
      const known = caller ?? run.readCaller()
      run.caller = known instanceof Promise ? { problem: 'keys_unavailable' } : known
    }
    if (body === 'unread') run.isBodyUnread = true
    else run.setBody(body)
    this.#setTime(run, undefined)
    const rule = run.isShadowed ? undefined : findStreamCut(run)
    this.#runs.giveBack(run)
    return rule
  }

  /** Returns the run to the pool. */
  refuseUnrouted(run: Run, reason: RouteProblem, body: BodyFacts): Rejected | Refused {
    run.setBody(body)
    this.#setTime(run, undefined)
    const objection = run.isShadowed ? undefined : firstObjection(run)
    return this.#concludeObjection(run, objection ?? { action: 'refuse', reason })
  }

  #decideRestarted(run: Run, options: DecideOptions): Decision | Promise<Decision> {
    run.restart()
    return this.decide(run, options)
  }

  /** Values that depend on the caller or the body are undecided here, so blocks that read them come later. */
  #earlyObjection(run: Run): Ended {
    const { isBodyUnread } = run
    run.isBodyUnread = true
    const objection = firstObjection(run)
    run.isBodyUnread = isBodyUnread
    return objection && this.#concludeObjection(run, objection)
  }

  #afterCaller(run: Run, caller: CallerVerdict, objection: Ended): Ended {
    run.caller = caller
    if (objection !== undefined || isVerified(caller)) return objection
    const { mode } = run.active!.plan.callers!
    if (mode === undefined || run.isExcepted) return undefined
    if (mode === 'enforce') return this.#conclude(run, unknownCaller(caller))
    run.wouldRefuse = callerReason(caller)
    return undefined
  }

  #setTime(run: Run, nowMs: number | undefined): void {
    run.nowMs = nowMs === undefined ? this.#clock.nowMs() : nowMs
    run.wallMs = this.#wallTime.at(run.nowMs)
    const { index } = run.active!.overrides
    run.overrides = index
    run.isShadowed = index?.isShadowed(run.nowMs) ?? false
  }

  /** Charges the rules of the enforcing policies; with `isBodyOnly`, of those that may need the body. */
  #chargeEnforcing(run: Run, isHeadOnly: boolean, isBodyOnly: boolean): void {
    const { policies, count } = run.matches
    for (let i = 0; i < count; i++) {
      const policy = policies[i]!
      if (!policy.isShadow && (policy.needsBody || !isBodyOnly)) chargeEnforcing(run, policy, isHeadOnly)
    }
  }

  /**
   * Returns what refuses the request, or the rule that blocks it, before the store is asked: the order of these checks is written here and nowhere else. Whether its caller is known
   * comes after the first ones, in `identify`.
   * Otherwise it charges the enforcing rules for the store to decide.
   */
  #objectionTo(run: Run, isHeadOnly: boolean, isBodyOnly: boolean): Refused | PlanRule | undefined {
    const first = firstObjection(run)
    if (first !== undefined) return first
    this.#chargeEnforcing(run, isHeadOnly, isBodyOnly)
    return run.refusal
  }

  #findObjection(run: Run, isHeadOnly: boolean): Rejected | Refused | undefined {
    const objection = this.#objectionTo(run, isHeadOnly, false)
    return objection && this.#concludeObjection(run, objection)
  }

  #concludeObjection(run: Run, objection: Refused | PlanRule): Rejected | Refused {
    return 'action' in objection ? this.#conclude(run, objection) : this.#block(run, objection)
  }

  #take(run: Run): Outcome | Promise<Outcome> {
    if (run.seen !== undefined) return this.#check(run)
    const { charges, results } = run.group
    return charges.length === 0 || this.#store.takeAll(charges, results, run.nowMs, run.wallMs)
  }

  #check(run: Run): Outcome | Promise<Outcome> {
    const { charges, results } = run.group
    return (
      charges.length === 0 ||
      this.#store.checkAll(charges, results, run.nowMs, run.wallMs, run.seen === undefined ? 'decision' : 'operator')
    )
  }

  /** Takes what is left after those ahead of this request, if any. */
  #takeInTurn(run: Run, lines: WaitingLines): Outcome | Promise<Outcome> {
    if (!isBehind(run.group, lines)) return this.#take(run)
    const fits = this.#check(run)
    return fits instanceof Promise ? fits.then((later) => this.#afterTurn(run, lines, later)) : this.#afterTurn(run, lines, fits)
  }

  #afterTurn(run: Run, lines: WaitingLines, fits: Outcome): Outcome | Promise<Outcome> {
    if (fits === 'unavailable') return fits
    return lengthenWaits(run.group, lines) ? false : this.#take(run)
  }

  /** An unavailable store rejects nothing here, because the decision will ask it again. */
  #afterCheck(run: Run, fits: Outcome): Rejected | undefined {
    const { lines } = run
    const isRejected = lines === undefined || lines.isEmpty ? fits === false : fits !== 'unavailable' && lengthenWaits(run.group, lines)
    return isRejected ? this.#reject(run) : undefined
  }

  #afterEnforcing(run: Run, taken: Outcome): Decision | Promise<Decision> {
    if (run.seen !== undefined) run.seen.hasEnforcing = true
    if (taken === 'unavailable') return this.#conclude(run, NO_STORE)
    this.#watchOf(run)?.onLevels(run.group, run.active!.plan, run.nowMs)
    if (taken === false) return this.#reject(run)
    if (run.seen !== undefined) pretendToTake(run.group, run.seen, this.#open)
    else if (run.active!.plan.hasSettledCosts) this.#reserve(run, run.group)
    run.limit = mostConstrained(run.group)
    return this.#simulate(run)
  }

  /** No policy enforces: each takes what fits from its usual counters, and changes no response. */
  #simulateAll(run: Run): Allowed | Promise<Allowed> {
    run.limit = undefined
    return this.#simulate(run)
  }

  /** Simulates each shadow policy by itself, all or nothing, on its own counters. A remote store gets all of them at once. */
  #simulate(run: Run): Allowed | Promise<Allowed> {
    if (run.seen !== undefined) run.seen.hasShadows = true
    let asked: Simulation[] | undefined
    for (let i = 0; i < run.matches.count; i++) {
      const policy = run.matches.policies[i]!
      if (!run.simulates(policy)) continue
      const block = blockIn(run, policy)
      // An ambiguous policy is skipped as a whole, because its other rules would count requests that it cannot tell apart.
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

  /** Processes the results in bundle order, whichever arrived first. */
  async #afterAll(run: Run, asked: readonly Simulation[]): Promise<Allowed> {
    const outcomes = await Promise.all(asked.map(({ taken }) => taken))
    for (const [i, { group }] of asked.entries()) this.#afterSimulated(run, group, outcomes[i]!)
    return this.#conclude(run, allowed(run))
  }

  #afterSimulated(run: Run, group: Group, taken: Outcome | PlanRule): void {
    if (typeof taken === 'boolean') {
      this.#watchOf(run)?.onLevels(group, run.active!.plan, run.nowMs)
      run.seen?.note(group, this.#open)
    }
    if (typeof taken === 'object') run.addWouldReject({ rule: taken, reason: 'blocked' })
    else if (taken === false) run.addWouldReject(longestRejection(group))
    else if (taken === true && run.seen === undefined) this.#reserve(run, group)
  }

  /** Reserves for rules whose cost is settled; no other rules warn. */
  #reserve(run: Run, group: Group): void {
    const known = run.reserved.length
    run.reserve(group)
    this.#open?.open(run.reserved, known)
    if (group.results.hasWarnings) for (const warning of warningsOf(group, run.usageLabels())) this.#onBudgetWarning(warning)
  }

  #block(run: Run, rule: PlanRule): Rejected {
    this.#watchOf(run)?.onReject(rule, run.limitValues(rule), 0, run.nowMs)
    return this.#conclude(run, blocked(run, rule))
  }

  #reject(run: Run): Rejected {
    if (this.#open !== undefined) awaitSettlements(run.group, this.#open)
    if (run.seen !== undefined) run.seen.note(run.group, this.#open)
    const rejection = longestRejection(run.group)
    const wait = run.lines === undefined ? undefined : waitOf(run.group)
    if (wait !== undefined && run.lines!.admit(wait)) return this.#conclude(run, rejected(run, rejection, wait, true))
    const { rule, firstRow } = rejection
    const { values, valuesFrom } = run.group.charges
    this.#watchOf(run)?.onReject(rule, values, valuesFrom[firstRow]!, run.nowMs)
    return this.#conclude(run, rejected(run, rejection, wait))
  }

  #conclude<D extends Decision>(run: Run, decision: D): D {
    if (run.seen === undefined) this.#runs.giveBack(run)
    return decision
  }

  /** An operator's question is not reported. */
  #watchOf(run: Run): CallerWatch | undefined {
    return run.seen === undefined ? this.#callerWatch : undefined
  }

  #lookAtEnforcing(run: Run, options: DecideOptions): void | Promise<void> {
    run.setBody(options.body)
    this.#setTime(run, options.nowMs)
    if (run.isShadowed) return
    this.#chargeEnforcing(run, false, false)
    const fits = this.#check(run)
    return fits instanceof Promise ? fits.then((later) => this.#noteEnforcing(run, later)) : this.#noteEnforcing(run, fits)
  }

  #noteEnforcing(run: Run, fits: Outcome): void {
    if (fits === 'unavailable') return
    if (fits === false && this.#open !== undefined) awaitSettlements(run.group, this.#open)
    run.seen!.note(run.group, this.#open)
  }

  #lookAtShadows(run: Run): unknown {
    return run.seen!.hasShadows || this.#simulate(run)
  }
}

/** What the head says that no limit matters for: a missing host, or the block that covers the request. */
function firstObjection(run: Run): Refused | PlanRule | undefined {
  if (run.lacksHost) return NO_HOST
  const block = findBlock(run)
  return block
}

/** Subtracts the costs without taking them, because a decision reports what is left after it. */
function pretendToTake(group: Group, seen: SeenCounters, open: OpenReservations | undefined): void {
  seen.note(group, open)
  const { charges, results } = group
  for (let row = 0; row < charges.length; row++) results.levels[row]! -= charges.costs[row]!
}

/** What ends a run before the rules are charged: undefined if nothing does. */
type Ended = Rejected | Refused | undefined

/** A shadow policy's part of a decision. */
interface Simulation {
  readonly group: Group
  /** The outcome, or the rule that would block the request, in which case the store is not asked. */
  readonly taken: Outcome | Promise<Outcome> | PlanRule
}
