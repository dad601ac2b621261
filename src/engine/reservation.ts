import type { Settler, SettlingRecord, Usage } from '../costs/cost.ts'
import { SLICES } from '../limiter/algorithms/in-flight.ts'
import type { InFlightLimit, Limit } from '../limiter/limit.ts'
import type { PlanRule } from '../policy/plan.ts'
import { Charges, type Counter, type OpenRecord, type Taken } from '../store/charges.ts'
import { type CounterLocator, identityDigest } from '../store/counter-locator.ts'
import type { CounterStore } from '../store/counter-store.ts'
import type { ActivePlan } from './active-plan.ts'
import type { CallerDigest } from './decide-options.ts'
import { subjectDigest } from './overrides/rule-overrides.ts'
import type { ReservedPart, ReservedParts } from './reserved-parts.ts'

/** The amounts taken for one request before its actual usage is known. */
export interface Reservation {
  /** Settled when the usage is known. */
  readonly charges: readonly ReservedCharge[]
  /** Requests in flight: renewed while they last, and released when they end. */
  readonly holds: readonly ReservedCharge[]
}

/**
 * One rule's share of a reservation, and the part of it that the decision took; most have no other. Rules of shadow policies take from counters of their
 * own.
 */
export interface ReservedCharge extends ReservedPart {
  /** The plan at the time of the decision. */
  readonly active: ActivePlan
  readonly rule: PlanRule
  readonly values: readonly string[]
  /** Settler of the cost that took the amount, so that the prices and limits of that moment apply. */
  readonly settler: Settler
  /** What the usage log and warnings say about the request. */
  readonly labels: UsageLabels
  /** When the decision took it, on the monotonic clock. */
  readonly sinceMs: number
  /** All parts, including the first, from when it is first asked to grow. */
  growth: ReservedParts | undefined
  /** Its record in the store of a fleet, from when it was first reported there. */
  open?: OpenRecord | undefined
}

/** Values of a request by the keys in `usage.labels`, as the request has them: those of credentials must not be shown. A missing value is left out. */
export type UsageLabels = Readonly<Record<string, string>>

export const NO_LABELS: UsageLabels = Object.freeze({})

/** Returns the amount that was taken so far, in all parts. */
export function reservedAmount({ amount, growth }: ReservedCharge): number {
  return growth === undefined ? amount : growth.amount
}

/** Returns the actual amount, or the reserved one if the settler leaves it as it is. */
export function settledAmount(charge: ReservedCharge, usage: Usage): number {
  const amount = reservedAmount(charge)
  return charge.settler.settled(amount, usage) ?? amount
}

/** Returns how long a hold counts unless it is renewed. */
export function holdMs({ rule }: ReservedCharge): number {
  return (rule.counters[0]!.limit as InFlightLimit).sliceMs * SLICES
}

/** One rule's share of a reservation without its plan and values, so that another thread or instance can settle it later. It never grows. */
export interface LocatedCharge {
  readonly settling: SettlingRecord
  /** Whether it is a request in flight, which is renewed while it lasts. */
  readonly isHold: boolean
  readonly amount: number
  readonly taken: Taken
  readonly counters: readonly LocatedCounter[]
  /** Digest of the caller for warnings, 16 hex digits; undefined if the rule never warns. */
  readonly caller: string | undefined
  /** Digest by which overrides of the rule identify the caller, 16 hex digits; undefined if it has no values or the token is from an earlier version. */
  readonly subject: string | undefined
}

export interface LocatedCounter {
  readonly locator: CounterLocator
  /** The limit at the time of the take, which applies if the rule is no longer in the bundle. */
  readonly limit: Limit
}

/** Returns the charges of a reservation, except for rules that took nothing because the store let the request pass without counting it. */
export function locatedCharges({ charges, holds }: Reservation, store: CounterStore, callerDigest: CallerDigest): LocatedCharge[] {
  return [
    ...charges.map((charge) => located(charge, false, store, callerDigest)),
    ...holds.map((hold) => located(hold, true, store, callerDigest)),
  ].filter(({ taken }) => taken.from !== 'none')
}

/** Returns the rows of a settlement that gives `cost` back to each counter, under the limits in force now. */
export function locatedRows(
  { counters, subject }: LocatedCharge,
  cost: number,
  active: ActivePlan | undefined,
  store: CounterStore,
  nowMs: number,
): Charges {
  const rows = new Charges()
  for (const { locator, limit } of counters) {
    const found = active && indexOf(active).get(locator.identity)
    const overrides = found && active.overrides.index?.of(found.rule)
    // An override that lifts or blocks the rule has no counters, so the rule's own limits apply to what was taken.
    const own = overrides?.findByDigest(subject, nowMs)?.counters[found!.position]
    rows.add(own ?? found?.counter ?? store.open({ identity: [], limit, sinceMs: 0 }), cost)
  }
  rows.locators = counters.map(({ locator }) => locator)
  return rows
}

function located(
  { active, rule, amount, values, taken, settler }: ReservedCharge,
  isHold: boolean,
  store: CounterStore,
  callerDigest: CallerDigest,
): LocatedCharge {
  const rows = new Charges()
  for (const { index } of rule.counters) {
    for (const value of values) rows.addValue(value)
    rows.add(active.counters[index]!, amount)
  }
  const locators = store.locatorsOf(rows, taken)
  const counters = rule.counters.map(({ limit }, i) => ({ locator: locators[i]!, limit }))
  const subject = values.length === 0 ? undefined : subjectDigest(rule, values, callerDigest)
  const warns = rule.counters.some(({ limit }) => 'warnings' in limit && limit.warnings !== undefined)
  return { settling: settler.record, isHold, amount, taken, counters, caller: warns ? callerDigest(values) : undefined, subject }
}

/** Returns the rule that a located counter belongs to, if it is still in the bundle. */
export function locatedRule(active: ActivePlan | undefined, { locator }: LocatedCounter): PlanRule | undefined {
  return active && indexOf(active).get(locator.identity)?.rule
}

interface LocatedIn {
  readonly rule: PlanRule
  readonly counter: Counter
  /** Position of the counter among the rule's counters. */
  readonly position: number
}

/** An index is built only when a plan first needs it, because most never do. */
const INDEXES = new WeakMap<ActivePlan, ReadonlyMap<string, LocatedIn>>()

function indexOf(active: ActivePlan): ReadonlyMap<string, LocatedIn> {
  const known = INDEXES.get(active)
  if (known !== undefined) return known
  const index = new Map<string, LocatedIn>()
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
