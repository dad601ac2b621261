import type { SettlingRecord } from '../costs/cost.ts'
import type { Limit } from '../limiter/limit.ts'
import type { PlanRule } from '../policy/plan.ts'
import { Charges, type Counter } from '../store/charges.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { identityDigest, type Place } from '../store/place.ts'
import type { Taken } from '../store/taken.ts'
import type { ActivePlan } from './active-plan.ts'
import type { CallerDigest } from './caller-digest.ts'
import type { Reservation, ReservedCharge } from './reservation.ts'
import { subjectDigest } from './rule-overrides.ts'

/** A rule's part of a reservation without plan and values, so that it can be settled later, by another thread or instance. */
export interface PlacedCharge {
  readonly settling: SettlingRecord
  /** A request in flight: renewed while it is. */
  readonly isHold: boolean
  readonly amount: number
  readonly taken: Taken
  readonly counters: readonly PlacedCounter[]
  /** Names the caller in warnings, 16 hex digits; undefined: the rule has none. */
  readonly caller: string | undefined
  /** Names the caller as overrides of the rule know it, 16 hex digits; undefined: it has no values, or the token is from an earlier version. */
  readonly subject: string | undefined
}

export interface PlacedCounter {
  readonly place: Place
  /** At the time of the take: it applies where the rule is no longer in the bundle. */
  readonly limit: Limit
}

/** Rules that took nothing, because the store let the request pass without counting it, are left out. */
export function placedCharges({ charges, holds }: Reservation, store: CounterStore, callerDigest: CallerDigest): PlacedCharge[] {
  return [
    ...charges.map((charge) => placed(charge, false, store, callerDigest)),
    ...holds.map((hold) => placed(hold, true, store, callerDigest)),
  ].filter(({ taken }) => taken.from !== 'none')
}

/** The rows of a settlement that gives `cost` back to each counter, under its limit of now. */
export function placedRows(
  { counters, subject }: PlacedCharge,
  cost: number,
  active: ActivePlan | undefined,
  store: CounterStore,
  nowMs: number,
): Charges {
  const rows = new Charges()
  for (const { place, limit } of counters) {
    const found = active && indexOf(active).get(place.identity)
    const overrides = found && active.overrides.index?.of(found.rule)
    // One that lifts or blocks the rule has no limits: the rule's own apply to what was taken.
    const own = overrides?.findByDigest(subject, nowMs)?.counters[found!.position]
    rows.add(own ?? found?.counter ?? store.open({ identity: [], limit, sinceMs: 0 }), cost)
  }
  rows.places = counters.map(({ place }) => place)
  return rows
}

function placed(
  { active, rule, amount, values, taken, settler }: ReservedCharge,
  isHold: boolean,
  store: CounterStore,
  callerDigest: CallerDigest,
): PlacedCharge {
  const rows = new Charges()
  for (const { index } of rule.counters) {
    for (const value of values) rows.addValue(value)
    rows.add(active.counters[index]!, amount)
  }
  const places = store.placesOf(rows, taken)
  const counters = rule.counters.map(({ limit }, i) => ({ place: places[i]!, limit }))
  const subject = values.length === 0 ? undefined : subjectDigest(rule, values, callerDigest)
  const warns = rule.counters.some(({ limit }) => 'warnings' in limit && limit.warnings !== undefined)
  return { settling: settler.record, isHold, amount, taken, counters, caller: warns ? callerDigest(values) : undefined, subject }
}

/** The rule that a placed counter belongs to, if it is still in the bundle. */
export function placedRule(active: ActivePlan | undefined, { place }: PlacedCounter): PlanRule | undefined {
  return active && indexOf(active).get(place.identity)?.rule
}

interface PlacedIn {
  readonly rule: PlanRule
  readonly counter: Counter
  /** Of the counter among the rule's. */
  readonly position: number
}

/** Made when a plan first needs it: most never do. */
const INDEXES = new WeakMap<ActivePlan, ReadonlyMap<string, PlacedIn>>()

function indexOf(active: ActivePlan): ReadonlyMap<string, PlacedIn> {
  const known = INDEXES.get(active)
  if (known !== undefined) return known
  const index = new Map<string, PlacedIn>()
  for (const { rules } of active.plan.policies) {
    for (const rule of rules) {
      for (const [position, { identity, index: at }] of rule.counters.entries()) {
        index.set(identityDigest(identity), { rule, counter: active.counters[at]!, position })
      }
    }
  }
  INDEXES.set(active, index)
  return index
}
