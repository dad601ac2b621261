import type { CallerDigest } from '../../engine/caller-digest.ts'
import type { PlanRule } from '../../policy/plan.ts'
import { CallerIds, type KnownRule } from '../../top/caller-ids.ts'
import type { ShownCaller } from '../../top/shown-caller.ts'
import { StreamSummary } from '../../top/stream-summary.ts'
import { ValueTexts, valuesAt } from '../../top/value-texts.ts'

/** Callers of all rules together. Up to here all counts are exact. */
const MAX_CALLERS = 16_384

export interface CallerCount extends ShownCaller {
  /** The same for the same caller of a rule of this name, in every count with the same key. */
  readonly id: string
  readonly count: number
}

/** Counts how often something happened to each caller of each rule, in memory of a fixed size. */
export class CallerCounts {
  readonly #ids: CallerIds
  readonly #summary = new StreamSummary(MAX_CALLERS)
  readonly #texts: ValueTexts
  /** By slot. */
  readonly #rules: KnownRule[] = []

  constructor(hashKey: readonly [number, number], callerDigest: CallerDigest) {
    this.#ids = new CallerIds(hashKey)
    this.#texts = new ValueTexts(MAX_CALLERS, callerDigest)
  }

  add(rule: PlanRule, values: readonly string[]): void {
    const known = this.#ids.identify(rule, values, 0)
    const slot = this.#summary.add(this.#ids.low, this.#ids.high)
    if (!this.#summary.isNew) return
    this.#rules[slot] = known
    this.#texts.write(slot, known, values, 0)
  }

  /** No count is too high by more than this, and none is too low. */
  get maxError(): number {
    return this.#summary.leastCount
  }

  /** Worst first; in the order of their first appearance on ties. */
  list(): CallerCount[] {
    const summary = this.#summary
    const texts = this.#texts.packed(summary.length)
    const callers = this.#rules.map(({ policy, rule, limitKeys }, slot): CallerCount => {
      const id = `${summary.lows[slot]}:${summary.highs[slot]}`
      return { id, policy, rule, values: valuesAt(texts, slot, limitKeys), count: summary.countAt(slot) }
    })
    return callers.sort((a, b) => b.count - a.count)
  }
}
