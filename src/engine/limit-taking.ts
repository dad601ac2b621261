import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { canOverdraw } from '../limiter/limit.ts'
import { ChargeResults } from '../store/charge-results.ts'
import type { CounterStore, Outcome } from '../store/counter-store.ts'
import type { Taken } from '../store/taken.ts'
import type { MergedGroup } from './merged-group.ts'

/** The moment of a call. */
export interface TakingMoment {
  readonly nowMs: number
  readonly wallMs: number
}

/**
 * Takes what descriptors cost, all or nothing, with levels and waits in the group's results. A row that costs nothing asks whether a hit would
 * pass. A limit that can be overdrawn never stops a take: while it is in debt it is charged all the same, and the outcome is false.
 */
export function takeHits(store: CounterStore, group: MergedGroup, moment: TakingMoment): Outcome | Promise<Outcome> {
  const { charges, results } = group
  const { nowMs, wallMs } = moment
  if (charges.length === 0) return true
  const takes = hasTakes(group)
  const asked = raiseAsked(group)
  if (!takes) return store.checkAll(charges, results, nowMs, wallMs)
  // Asked first: what is asked may not be taken, and the store knows no cost that is only looked at.
  const fits = asked.length === 0 || store.checkAll(charges, results, nowMs, wallMs)
  return after(fits, (outcome) => afterAsked(store, group, asked, outcome, moment))
}

/** Gives hits back, or nothing where the store does not know of them. Levels are those after it. */
export function giveBackHits(store: CounterStore, group: MergedGroup, moment: TakingMoment): Outcome | Promise<Outcome> {
  const { charges, results } = group
  const amounts = charges.costs.slice(0, charges.length)
  charges.costs.fill(0, 0, charges.length)
  // Takes nothing, and says when and where it would.
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

/** Whether a row that can stop a take does. */
function isRefused(group: MergedGroup): boolean {
  const { charges, results } = group
  for (let row = 0; row < charges.length; row++) if (results.waitsMs[row]! > 0 && !group.isForced(row)) return true
  return false
}

/** Only debts are in the way. The other rows are taken, all or nothing, and then those that can be overdrawn are charged. */
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

/** Lets the rows that cost nothing ask for one hit. Those that can be overdrawn look at their level anyway. Returns those rows. */
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

/** Waits only for a promise. */
function after(outcome: Outcome | Promise<Outcome>, next: (outcome: Outcome) => Outcome | Promise<Outcome>): Outcome | Promise<Outcome> {
  return outcome instanceof Promise ? outcome.then(next) : next(outcome)
}
