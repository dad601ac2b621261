/*
 * Money is counted in whole billionths of a unit of the currency, so that sums are exact: the largest budget is below 2^53 of them. Bundles
 * write amounts in units, with at most six decimals.
 */

/** Billionths in a unit. */
export const NANO = 1_000_000_000
const MICRO = 1_000_000

/** The largest budget, in units of the currency. */
export const MAX_BUDGET = 9_000_000

/** The largest amount, which is above every budget and still exact. Higher costs count as this. */
const MAX_AMOUNT = Number.MAX_SAFE_INTEGER

/** The amount that counts as 1 in the RateLimit fields: a hundredth of a unit, in billionths. */
export const HUNDREDTH = NANO / 100

/** Whether a number of a bundle has at most six decimals. */
export function hasSixDecimals(units: number): boolean {
  return Math.round(units * MICRO) / MICRO === units
}

/** Converts units to millionths; exact for numbers with at most six decimals. */
export function microOf(units: number): number {
  return Math.round(units * MICRO)
}

/** Converts units to billionths: exact for up to nine decimals, otherwise rounded up. Returns undefined if the number cannot be an amount. */
export function nanoOf(units: number): number | undefined {
  if (!(units >= 0)) return undefined
  const nearest = Math.round(units * NANO)
  return Math.min(nearest / NANO === units ? nearest : Math.ceil(units * NANO), MAX_AMOUNT)
}

/** Bounds a computed amount by the largest that can be counted. */
export function cappedAmount(nano: number): number {
  return Math.min(nano, MAX_AMOUNT)
}

const DECIMAL = /^(\d+)(?:\.(\d+))?$/
const DECIMALS = 9

/** Converts a text such as `0.0125` to billionths, rounded up; returns 0 if it is not a positive number in plain decimals. */
export function readNano(text: string): number {
  const match = DECIMAL.exec(text)
  if (match === null) return 0
  const [, whole = '', fraction = ''] = match
  const nano = Number(whole + fraction.slice(0, DECIMALS).padEnd(DECIMALS, '0'))
  return cappedAmount(Number(fraction.slice(DECIMALS)) > 0 ? nano + 1 : nano)
}
