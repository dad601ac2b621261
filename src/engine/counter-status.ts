import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import type { PlanCounter } from '../policy/plan.ts'
import { wholeTokens } from './verdict.ts'

/** How one counter of a rule stands for one caller. */
export interface CounterStatus {
  readonly kind: PlanCounter['part']
  /** The most that it can ever hold. */
  readonly limit: number
  /** What is left, to the fraction. Settlements may leave a debt: then it is below zero. */
  readonly level: number
  /** What is left, in whole tokens and never below zero. */
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
