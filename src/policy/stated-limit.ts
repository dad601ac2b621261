import { DAY_MS, type Period } from '../limiter/calendar.ts'
import { RATE } from './algorithms/rate.ts'
import type { Rule } from './schema/bundle.ts'

/** A limit as the rate limit service states it: a number per unit of time. */
export interface StatedLimit {
  /** A whole number of at least 1. */
  readonly count: number
  readonly unit: LimitUnit
}

export type LimitUnit = 'second' | 'minute' | 'hour' | 'day' | 'week' | 'month' | 'year'

/** Sorted from the smallest. A month counts as 30 days, and a year as 365. */
const UNITS: readonly (readonly [unit: LimitUnit, ms: number])[] = [
  ['second', 1000],
  ['minute', 60_000],
  ['hour', 3_600_000],
  ['day', DAY_MS],
  ['week', 7 * DAY_MS],
  ['month', 30 * DAY_MS],
  ['year', 365 * DAY_MS],
]

/** Returns one limit for each counter of the rule, in the unit in which the rule is written where that is possible. */
export function statedLimits(rule: Rule): StatedLimit[] {
  switch (rule.algorithm) {
    case 'token_bucket': {
      const { rate, tokens_per_second } = rule.algorithm_config
      const [, count, unit] = RATE.exec(rate ?? '') ?? []
      return [count === undefined ? inSmallestUnit(tokens_per_second! / 1000) : stated(Number(count), unit as LimitUnit)]
    }
    case 'fixed_window': {
      const { limit, period } = rule.algorithm_config
      const [, count, unit] = /^(\d+)(m|h|d|w|mo|y)$/.exec(period) as unknown as [string, string, keyof typeof PERIOD_UNITS]
      return [count === '1' ? stated(limit, PERIOD_UNITS[unit]) : inSmallestUnit(limit / (Number(count) * unitMs(PERIOD_UNITS[unit])))]
    }
    case 'token_bucket_llm': {
      const { tokens_per_minute, tokens_per_day } = rule.algorithm_config
      const perMinute = tokens_per_minute === undefined ? [] : [stated(tokens_per_minute, 'minute')]
      return tokens_per_day === undefined ? perMinute : [...perMinute, stated(tokens_per_day, 'day')]
    }
    default:
      return []
  }
}

type PeriodUnit<Text> = Text extends `${number}${infer Unit extends 'm' | 'h' | 'd' | 'w' | 'mo' | 'y'}` ? Unit : never

const PERIOD_UNITS = {
  m: 'minute',
  h: 'hour',
  d: 'day',
  w: 'week',
  mo: 'month',
  y: 'year',
} as const satisfies Record<PeriodUnit<Period>, LimitUnit>

function stated(count: number, unit: LimitUnit): StatedLimit {
  return count >= 1 ? { count: Math.floor(count), unit } : inSmallestUnit(count / unitMs(unit))
}

/** Converts a rate to the smallest unit in which it is at least 1. */
function inSmallestUnit(perMs: number): StatedLimit {
  // Floating-point rounding may put the product just below a whole number.
  for (const [unit, ms] of UNITS) if (perMs * ms >= 1 - 1e-9) return { count: Math.floor(perMs * ms + 1e-9), unit }
  return { count: 1, unit: 'year' }
}

function unitMs(unit: LimitUnit): number {
  return UNITS.find(([name]) => name === unit)![1]
}
