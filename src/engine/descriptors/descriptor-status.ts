import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import { canOverdraw } from '../../limiter/limit.ts'
import { MAX_AMOUNT } from '../../policy/algorithms/rate.ts'
import type { KeySetRule } from '../../policy/index/domain-index.ts'
import type { PlanRule } from '../../policy/plan.ts'
import type { StatedLimit } from '../../policy/stated-limit.ts'
import { Charges } from '../../store/charges.ts'
import type { ActivePlan } from '../active-plan.ts'
import { rejectionBy, ruleWaitMs, shownLevel } from '../conclusion.ts'
import { Group } from '../decision.ts'
import { bundleRule, type Variant } from '../overrides/rule-overrides.ts'
import type { DescriptorStatus } from './descriptor-call.ts'

/** No rule limits the descriptor. */
export const NO_LIMIT: DescriptorStatus = Object.freeze({ isOver: false, rule: undefined, stated: undefined, remaining: 0, resetMs: 0 })

/** A rule makes the descriptor unlimited. */
export const UNLIMITED: DescriptorStatus = Object.freeze({ ...NO_LIMIT, remaining: Number.POSITIVE_INFINITY })

export function blockedStatus(rule: PlanRule): DescriptorStatus {
  return { isOver: true, rule, stated: undefined, remaining: 0, resetMs: 0 }
}

/** Returns the worst of the first `count` entries: the one with the longest wait, else the one with the smallest remaining share; on ties, the first. */
export function worstStatus(group: MergedGroup, entries: readonly number[], count: number): DescriptorStatus {
  let over = -1
  let longestMs = 0
  for (let i = 0; i < count; i++) {
    const waitMs = ruleWaitMs(group, entries[i]!)
    if (waitMs <= longestMs) continue
    longestMs = waitMs
    over = entries[i]!
  }
  return over >= 0 ? overStatus(group, over) : scarcestStatus(group, entries, count)
}

function overStatus(group: MergedGroup, entry: number): DescriptorStatus {
  const { rule, retryAfterMs } = rejectionBy(group, entry)
  const firstRow = group.firstRows[entry]!
  const c = rule.counters.findIndex((_, index) => group.results.waitsMs[firstRow + index]! > 0)
  return { isOver: true, rule, stated: group.stated[entry]![c], remaining: 0, resetMs: retryAfterMs }
}

function scarcestStatus(group: MergedGroup, entries: readonly number[], count: number): DescriptorStatus {
  const { levels, wallMs } = group.results
  let scarcest = -1
  let counter = 0
  let level = 0
  let share = Number.POSITIVE_INFINITY
  for (let i = 0; i < count; i++) {
    const { counters } = group.rules[entries[i]!]!
    for (let c = 0; c < counters.length; c++) {
      const left = levels[group.firstRows[entries[i]!]! + c]!
      if (left / counters[c]!.size >= share) continue
      scarcest = entries[i]!
      counter = c
      level = left
      share = left / counters[c]!.size
    }
  }
  if (scarcest < 0) return NO_LIMIT
  const rule = group.rules[scarcest]!
  const { limit } = rule.counters[counter]!
  return {
    isOver: false,
    rule: bundleRule(rule),
    stated: group.stated[scarcest]![counter],
    remaining: shownLevel(level, rule.counters[counter]!),
    resetMs: algorithmOf(limit).resetMs(limit, level, wallMs),
  }
}

/** The charges of several descriptors of one call. If two descriptors share counters, these are charged once, with the sum. */
export class MergedGroup extends Group {
  /** The limits of each rule as the rate limit service states them, one for each of its counters. */
  readonly stated: (readonly StatedLimit[])[] = []
  /** A linked list of entries by rule, the latest first. Entries of the same rule differ in values. */
  readonly #latest = new Map<PlanRule, number>()
  readonly #before: number[] = []

  override clear(): void {
    super.clear()
    if (this.#latest.size > 0) this.#latest.clear()
  }

  /**
   * Adds a charge and returns its entry's index in the group. `variant` is the rule under an override. `mayRepeat` means that the rule may be in the group
   * already.
   */
  charge(
    { rule, limitKeys, stated }: KeySetRule<PlanRule>,
    variant: Variant | undefined,
    values: readonly string[],
    hits: number,
    active: ActivePlan,
    mayRepeat: boolean,
  ): number {
    const { charges } = this
    const latest = mayRepeat ? this.#latest.get(rule) : undefined
    for (let entry = latest ?? -1; entry >= 0; entry = this.#before[entry]!) {
      if (!this.#isOf(entry, limitKeys, values)) continue
      const firstRow = this.firstRows[entry]!
      for (let c = 0; c < rule.counters.length; c++) charges.costs[firstRow + c] = bounded(charges.costs[firstRow + c]! + hits)
      return entry
    }
    const entry = this.ruleCount
    const firstRow = charges.length
    for (let c = 0; c < rule.counters.length; c++) {
      for (let k = 0; k < limitKeys.length; k++) charges.addValue(values[limitKeys[k]!]!)
      charges.add(variant === undefined ? active.counters[rule.counters[c]!.index]! : variant.counters[c]!, bounded(hits))
    }
    this.add(variant === undefined ? rule : variant.rule, firstRow)
    this.stated[entry] = variant === undefined ? stated : variant.stated
    if (mayRepeat) {
      this.#before[entry] = latest ?? -1
      this.#latest.set(rule, entry)
    }
    return entry
  }

  /** Returns the rows for which `isKept` holds as separate charges, in the same order. */
  rowsWhere(isKept: (row: number) => boolean): PartOfCharges {
    const { charges: all } = this
    const charges = new Charges()
    const rows: number[] = []
    for (let row = 0; row < all.length; row++) {
      if (!isKept(row)) continue
      for (let v = all.valuesFrom[row]!; v < all.valuesFrom[row + 1]!; v++) charges.addValue(all.values[v]!)
      charges.add(all.counters[row]!, all.costs[row]!)
      rows.push(row)
    }
    return { charges, rows }
  }

  /** Whether the row is charged in any case, because its limit can be overdrawn and it does not merely ask. */
  isForced(row: number): boolean {
    return this.charges.costs[row]! > 0 && canOverdraw(this.charges.counters[row]!.limit)
  }

  #isOf(entry: number, limitKeys: readonly number[], values: readonly string[]): boolean {
    const from = this.charges.valuesFrom[this.firstRows[entry]!]!
    for (let k = 0; k < limitKeys.length; k++) if (this.charges.values[from + k] !== values[limitKeys[k]!]) return false
    return true
  }
}

export interface PartOfCharges {
  readonly charges: Charges
  /** Indexes of the rows in the whole group. */
  readonly rows: readonly number[]
}

/** Bounds hits by the largest limit possible, which also keeps sums exact. */
function bounded(hits: number): number {
  return Math.min(hits, MAX_AMOUNT)
}
