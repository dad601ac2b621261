import { canOverdraw } from '../limiter/limit.ts'
import type { KeySetRule } from '../policy/key-set.ts'
import { MAX_AMOUNT } from '../policy/max-tokens.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { StatedLimit } from '../policy/stated-limit.ts'
import { Charges } from '../store/charges.ts'
import type { ActivePlan } from './active-plan.ts'
import { Group } from './group.ts'
import type { Variant } from './variant.ts'

/**
 * What several descriptors of one call are charged together. Where two of them come to the same counters, these are charged once, with the sum.
 */
export class MergedGroup extends Group {
  /** What the limits of each rule are in words, one for each of its counters. */
  readonly stated: (readonly StatedLimit[])[] = []
  /** The latest entry of each rule, and the one before each entry: entries of one rule differ in values. */
  readonly #latest = new Map<PlanRule, number>()
  readonly #before: number[] = []

  override clear(): void {
    super.clear()
    if (this.#latest.size > 0) this.#latest.clear()
  }

  /** Returns the index of the rule in the group. `variant`: the rule under an override. `mayRepeat`: the rule may be here already. */
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

  /** The rows of which `isKept` holds, as charges of their own; they keep their order. */
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

  /** Whether the row is charged in any case: its limit can be overdrawn, and it is not only asked. */
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
  /** Of the whole. */
  readonly rows: readonly number[]
}

/** No caller takes more, and sums stay exact. */
function bounded(hits: number): number {
  return Math.min(hits, MAX_AMOUNT)
}
