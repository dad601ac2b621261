import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { identityName } from '../policy/compile.ts'
import type { PlanRule } from '../policy/plan.ts'
import { ChargeResults, Charges, type OpenRecord, type OpenReservation, type Taken } from '../store/charges.ts'
import type { CounterStore, Outcome } from '../store/counter-store.ts'
import type { Clock } from '../time/clock.ts'
import type { PlanSwitch } from './active-plan.ts'
import type { OpenReservations } from './open-reservations.ts'
import { type LocatedCharge, locatedRows, locatedRule, NO_LABELS, type ReservedCharge } from './reservation.ts'
import { type ReservedPart, ReservedParts } from './reserved-parts.ts'
import type { Unsettled, UnsettledAmount } from './unsettled.ts'
import type { OnBudgetWarning } from './watchers.ts'

/**
 * What became of a reservation that was to grow: a part was granted; its windows refused it; the store is unavailable; nothing was asked, because the rule
 * does not limit its caller any more; or it was granted after the reservation was settled, and given back.
 */
export type Growth = 'granted' | 'refused' | 'unavailable' | 'not_enforced' | 'too_late'

/**
 * Changes what decisions have reserved: corrects it to what was used, takes more while a stream passes, and renews holds. Whatever bundle is active by then, the
 * counters are those that the decision took from, under the limits that apply to its caller now.
 */
export class ReservationChanges {
  readonly #store: CounterStore
  readonly #clock: Clock
  readonly #plans: PlanSwitch
  readonly #onBudgetWarning: OnBudgetWarning
  readonly #open: OpenReservations | undefined
  /** Reservations of requests in flight. */
  readonly #unsettled = new Set<Unsettled>()
  /** Called when a request in flight has reserved something. */
  onUnsettled: (() => void) | undefined
  /** Calls of the store that correct or grow reservations. */
  readonly #underWay = new Set<Promise<unknown>>()

  constructor(store: CounterStore, clock: Clock, plans: PlanSwitch, onBudgetWarning: OnBudgetWarning, open: OpenReservations | undefined) {
    this.#store = store
    this.#clock = clock
    this.#plans = plans
    this.#onBudgetWarning = onBudgetWarning
    this.#open = open
  }

  /**
   * Corrects what a rule reserved to `amount`, in the counters that it was taken from. Call it once for each charge. A rule that is no longer in the bundle
   * is settled all the same.
   */
  settle(reserved: ReservedCharge, amount: number): void | Promise<void> {
    const { growth, open } = reserved
    reserved.open = undefined
    if (open !== undefined) open.isClosed = true
    const done =
      growth === undefined
        ? this.#correct(reserved, reserved, reserved.amount - amount, open)
        : this.#correctParts(reserved, growth, amount, open)
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
    if (outcome instanceof Promise) return this.#noteUnderWay(outcome.then((later) => this.#afterGrowth(reserved, amount, later, results)))
    return this.#afterGrowth(reserved, amount, outcome, results)
  }

  #afterGrowth(reserved: ReservedCharge, amount: number, outcome: Outcome, results: ChargeResults): Growth | Promise<Growth> {
    if (outcome !== true) return outcome === false ? 'refused' : 'unavailable'
    const { rule, values, labels } = reserved
    const growth = reserved.growth!
    if (results.hasWarnings) {
      // Even if it is given back: the store has noted the warning, and would not report it again.
      for (const percent of results.warnings) if (percent > 0) this.#onBudgetWarning({ rule, values, percent, labels })
    }
    const part = { amount, taken: { wallMs: results.wallMs, momentMs: results.momentMs, from: results.takenFrom } }
    if (growth.isSettled) {
      const givenBack = this.#correct(reserved, part, amount)
      return givenBack instanceof Promise ? givenBack.then(() => 'too_late') : 'too_late'
    }
    this.#open?.openPart(reserved, part)
    growth.changedMs = this.#clock.nowMs()
    const dropped = growth.add(part, (a, b) => isSameWindow(rule, a, b))
    if (dropped !== undefined) this.#open?.closePart(reserved, dropped)
    return 'granted'
  }

  /** Charges `amount` more for a reservation, whether or not there is enough: as a further part of what its decision took, where and when it took that. */
  overdraw(reserved: ReservedCharge, amount: number): void | Promise<void> {
    const part = { amount, taken: reserved.taken }
    reserved.growth ??= new ReservedParts(reserved)
    reserved.growth.changedMs = this.#clock.nowMs()
    this.#open?.openPart(reserved, part)
    const dropped = reserved.growth.add(part, (a, b) => isSameWindow(reserved.rule, a, b))
    if (dropped !== undefined) this.#open?.closePart(reserved, dropped)
    return this.#correct(reserved, part, -amount)
  }

  noteUnsettled(unsettled: Unsettled): void {
    this.#unsettled.add(unsettled)
    this.onUnsettled?.()
  }

  get hasUnsettled(): boolean {
    return this.#unsettled.size > 0
  }

  noteSettled(unsettled: Unsettled): void {
    this.#unsettled.delete(unsettled)
  }

  /** Returns what requests in flight that began before `beforeMs` would give back to the counters of a fleet if they ended now. */
  *openReservations(beforeMs: number): Generator<OpenReservation> {
    for (const unsettled of this.#unsettled) {
      if (unsettled.sinceMs >= beforeMs) continue
      for (const charge of unsettled.charges) yield* this.#openReservationOf(charge, unsettled.amountNow(charge))
    }
  }

  *#openReservationOf(charge: ReservedCharge, amount: number): Generator<OpenReservation> {
    const shared = charge.growth === undefined ? [charge] : charge.growth.all
    const taken = shared.findLast((part) => part.taken.from === 'shared')?.taken
    if (taken === undefined) return
    const backs = Array.from(backsOf(charge, amount)).filter(([part, back]) => back > 0 && part.taken.from === 'shared')
    const nowMs = this.#clock.nowMs()
    const parts = backs.map(([part, back]) => ({
      charges: this.#chargesOf(charge, back, nowMs),
      taken: part.taken,
      kept: part.amount - back,
    }))
    yield { holder: charge, taken, parts, isMoney: charge.rule.counters[0]!.reason === 'budget_exceeded' }
  }

  /** Returns what requests in flight would give back to this process's own counters if they ended now, except for what has changed since `beforeMs`. */
  *unsettledAmounts(beforeMs: number): Generator<UnsettledAmount> {
    for (const unsettled of this.#unsettled) {
      if (unsettled.sinceMs >= beforeMs) continue
      for (const charge of unsettled.charges) {
        if (charge.growth === undefined || charge.growth.changedMs < beforeMs) yield* this.#unsettledOf(charge, unsettled.amountNow(charge))
      }
    }
  }

  *#unsettledOf(charge: ReservedCharge, amount: number): Generator<UnsettledAmount> {
    const { counters } = charge.rule
    for (const [part, back] of backsOf(charge, amount)) {
      const { from, momentMs } = part.taken
      // What was taken from a fleet was taken from this process's own counters, too.
      if (back <= 0 || from === 'none') continue
      const locators = this.#store.locatorsOf(this.#chargesOf(charge, back, this.#clock.nowMs()), part.taken)
      for (const [i, locator] of locators.entries()) yield { counter: counters[i]!, locator, back, kept: part.amount - back, momentMs }
    }
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

  #correctParts(reserved: ReservedCharge, growth: ReservedParts, amount: number, open: OpenRecord | undefined): void | Promise<void> {
    growth.isSettled = true
    const pending: Promise<void>[] = []
    const correct = (part: ReservedPart, back: number): void => {
      const closed = part.taken.from === 'shared' ? open : undefined
      if (closed !== undefined) open = undefined
      const done = this.#correct(reserved, part, back, closed)
      if (done instanceof Promise) pending.push(done)
    }
    for (const [part, back] of growth.corrections(amount)) correct(part, back)
    if (open !== undefined) correct({ amount: 0, taken: open.taken }, 0)
    if (pending.length > 0) return Promise.all(pending).then(() => {})
  }

  /** Gives `back` to the counters that a part was taken from, or charges it if it is below zero. Closes the record of the reservation with it. */
  #correct(reserved: ReservedCharge, { taken }: ReservedPart, back: number, closed?: OpenRecord): void | Promise<void> {
    if (back === 0 && closed === undefined) return
    const { rule, values, labels } = reserved
    const nowMs = this.#clock.nowMs()
    const charges = this.#chargesOf(reserved, back, nowMs)
    charges.open = closed
    const done = this.#store.settleAll(charges, taken, nowMs, this.#clock.wallMs(), (_row, percent) =>
      this.#onBudgetWarning({ rule, values, percent, labels }),
    )
    return done instanceof Promise ? this.#noteUnderWay(done) : done
  }

  /** Resolves when no correction and no growth is under way, and what was granted too late is given back. Never rejects. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay)
  }

  #noteUnderWay<Result>(call: Promise<Result>): Promise<Result> {
    const underWay = this.#underWay.add(call)
    const forget = (): boolean => underWay.delete(call)
    call.then(forget, forget)
    return call
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
      if (rule !== undefined) this.#onBudgetWarning({ rule, values: [], caller: charge.caller, percent, labels: NO_LABELS })
    })
  }

  /** Renews like `renew`; `taker` is as in `settleLocated`. */
  renewLocated(hold: LocatedCharge, taker: string | undefined): Taken | Promise<Taken> {
    const nowMs = this.#clock.nowMs()
    const rows = locatedRows(hold, hold.amount, this.#plans.active, this.#store, nowMs)
    return this.#store.renewLocated(rows, taker, hold.taken, nowMs, this.#clock.wallMs())
  }

  /** Returns a row for each counter that was taken from, as the active plan and its overrides limit it now. */
  #chargesOf({ rule, active: taker, values }: ReservedCharge, cost: number, nowMs: number): Charges {
    const charges = new Charges(rule.counters.length)
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

/** Returns what each part of a charge would give back if `amount` was used in all. */
function backsOf(charge: ReservedCharge, amount: number): Iterable<readonly [part: ReservedPart, back: number]> {
  return charge.growth === undefined ? [[charge, charge.amount - amount]] : charge.growth.corrections(amount)
}

/** Whether both takes were from the same window of each of the rule's counters, and from the same store. */
function isSameWindow({ counters }: PlanRule, a: Taken, b: Taken): boolean {
  return (
    a.from === b.from &&
    counters.every(({ limit }) => algorithmOf(limit).windowAt(limit, a.wallMs) === algorithmOf(limit).windowAt(limit, b.wallMs))
  )
}
