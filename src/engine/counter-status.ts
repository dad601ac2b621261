import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import type { PlanCounter } from '../policy/plan-counter.ts'
import { wholeTokens } from './verdict.ts'

/** The state of one counter of a rule for one caller. */
export interface CounterStatus {
  readonly kind: PlanCounter['part']
  /** The most that it can ever hold. */
  readonly limit: number
  /** What is left, with fractions. Settlements may leave a debt: then it is negative. */
  readonly level: number
  /** What is left, in whole tokens, and never negative. */
  readonly remaining: number
  /** Until it is full again. */
  readonly resetMs: number
}

export function statusOf({ part, size, limit }: PlanCounter, level: number, wallMs: number): CounterStatus {
  return {
    kind: part,
    limit: size,
    level,
    remaining: wholeTokens(level),
    resetMs: algorithmOf(limit).resetMs(limit, level, wallMs),
  }
}
