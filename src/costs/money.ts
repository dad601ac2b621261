/*
 * Money is counted in whole billionths of a unit of the currency, so that sums are exact: the largest budget is below 2^53 of them. Bundles
 * write it in units, with at most six decimals.
 */

/** Billionths in a unit. */
const NANO = 1_000_000_000
const MICRO = 1_000_000

/** In units. */
export const MAX_BUDGET = 9_000_000

/** Above every budget, and still exact: what costs more is counted as this. */
const MAX_AMOUNT = Number.MAX_SAFE_INTEGER

/** One of the RateLimit fields: a hundredth of a unit, in billionths. */
export const HUNDREDTH = NANO / 100

/** Whether a number of a bundle has at most six decimals. */
export function hasSixDecimals(units: number): boolean {
  return Math.round(units * MICRO) / MICRO === units
}

/** Whole, for numbers with at most six decimals. */
export function microOf(units: number): number {
  return Math.round(units * MICRO)
}

/** The billionths in a number of units: exact for up to nine decimals, else rounded up. Undefined where it cannot be an amount. */
export function nanoOf(units: number): number | undefined {
  if (!(units >= 0)) return undefined
  const nearest = Math.round(units * NANO)
  return Math.min(nearest / NANO === units ? nearest : Math.ceil(units * NANO), MAX_AMOUNT)
}

/** An amount that was computed, as one that can be counted. */
export function cappedAmount(nano: number): number {
  return Math.min(nano, MAX_AMOUNT)
}

const DECIMAL = /^(\d+)(?:\.(\d+))?$/
const DECIMALS = 9

/** The billionths in a text such as `0.0125`, rounded up; 0 where it is not a positive number in plain decimals. */
export function readNano(text: string): number {
  const match = DECIMAL.exec(text)
  if (match === null) return 0
  const [, whole = '', fraction = ''] = match
  const nano = Number(whole + fraction.slice(0, DECIMALS).padEnd(DECIMALS, '0'))
  return cappedAmount(Number(fraction.slice(DECIMALS)) > 0 ? nano + 1 : nano)
}
