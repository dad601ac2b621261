import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import type { PlanCounter } from '../policy/plan-counter.ts'
import { shownLevel } from './verdict.ts'

/** The state of one counter of a rule for one caller: in tokens, and that of a budget in hundredths of a unit of its currency. */
export interface CounterStatus {
  readonly kind: PlanCounter['part']
  /** The most that it can ever hold. */
  readonly limit: number
  /** What is left, with fractions. Settlements may leave a debt: then it is negative. */
  readonly level: number
  /** What is left, rounded down, and never negative. */
  readonly remaining: number
  /** Until it is full again. */
  readonly resetMs: number
}

export function statusOf(counter: PlanCounter, level: number, wallMs: number): CounterStatus {
  const { part, size, limit, unit } = counter
  return {
    kind: part,
    limit: size / unit,
    level: level / unit,
    remaining: shownLevel(level, counter),
    resetMs: algorithmOf(limit).resetMs(limit, level, wallMs),
  }
}
