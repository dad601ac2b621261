import { hasSixDecimals, MAX_BUDGET } from '../costs/money.ts'
import { show } from '../text/problem.ts'
import { closest } from '../text/suggest.ts'
import { MAX_AMOUNT, MIN_PER_SECOND, rateProblem } from './algorithms/rate.ts'
import { KEY_FORMS, meantKey } from './descriptor-key.ts'

/*
 * The values that a rule's limits may have, for the schema of bundles and for overrides alike. Workers check overrides, so nothing here
 * loads the schema. Each text completes the sentence "expected …".
 */

/** The range and the form of the numbers that a limit may have. */
export interface NumberForm {
  readonly min: number
  readonly max: number
  /** Whether the limit can be counted in the unit of the algorithm: in whole requests, for example. */
  readonly isCountable: (value: number) => boolean
  readonly expected: string
  readonly tooLow: string
  readonly tooHigh: string
}

export const PER_SECOND: NumberForm = {
  min: MIN_PER_SECOND,
  max: MAX_AMOUNT,
  isCountable: Number.isFinite,
  expected: 'a number above 0, in tokens per second',
  tooLow: `a number above 0 (at least ${MIN_PER_SECOND})`,
  tooHigh: `a number up to ${MAX_AMOUNT}`,
}

export const BURST: NumberForm = {
  min: 1,
  max: MAX_AMOUNT,
  isCountable: Number.isFinite,
  expected: 'a number of at least 1',
  tooLow: 'a number of at least 1, because below 1 no request would ever pass',
  tooHigh: `a number up to ${MAX_AMOUNT}`,
}

/** Amounts of money have at most six decimals, so the smallest one is a millionth. */
export const MONEY: NumberForm = {
  min: 1e-6,
  max: MAX_BUDGET,
  isCountable: hasSixDecimals,
  ...everyTime(`an amount of money, a number above 0, up to ${MAX_BUDGET}, with at most 6 decimals`),
}

export const IN_FLIGHT_REQUESTS = wholeNumber('requests', 1_000_000)

export function wholeNumber(what: string, max = MAX_AMOUNT): NumberForm {
  return { min: 1, max, isCountable: Number.isInteger, ...everyTime(`a whole number of ${what}, from 1 to ${max}`) }
}

function everyTime(expected: string): Pick<NumberForm, 'expected' | 'tooLow' | 'tooHigh'> {
  return { expected, tooLow: expected, tooHigh: expected }
}

const FORMS: Readonly<Record<string, NumberForm>> = {
  tokens_per_second: PER_SECOND,
  burst: BURST,
  limit: wholeNumber('requests'),
  tokens_per_minute: wholeNumber('tokens'),
  tokens_per_day: wholeNumber('tokens'),
  burst_tokens: wholeNumber('tokens'),
  budget: MONEY,
  max_in_flight: IN_FLIGHT_REQUESTS,
}

/** Returns what was expected of a limit in a rule's `algorithm_config`, or undefined if a bundle may have this value. */
export function limitProblem(field: string, value: unknown): string | undefined {
  if (field === 'rate') return rateProblem(value)
  const { min, max, isCountable, expected, tooLow, tooHigh } = FORMS[field]!
  if (typeof value !== 'number' || !isCountable(value)) return expected
  if (value < min) return tooLow
  return value > max ? tooHigh : undefined
}

/** Returns the end of the sentence "expected …": what was found instead, and a suggestion where one is likely. What may be a secret is not quoted. */
export function foundValue(value: unknown, expected: string, isSecret = false): string {
  if (value === undefined) return 'but it is missing'
  // Of a match, other texts may be secrets.
  if (expected.startsWith('"else"') && ELSE.test(String(value))) return `got ${show(value)} — did you mean "else"?`
  const got = `got ${isSecret ? kindOf(value) : show(value)}`
  if (typeof value === 'number' || typeof value === 'boolean') return expected.startsWith('a text') ? `${got} — put it in quotes?` : got
  if (typeof value !== 'string') return got
  if (expected.includes('number') && value.trim() !== '' && Number.isFinite(Number(value))) return `${got} — remove the quotes?`
  // What follows "other than" is not allowed, and must not be suggested.
  const [allowed] = expected.split(', other than ', 1) as [string]
  const choices = [...allowed.matchAll(/"([^"]+)"/g)].map((match) => match[1]!)
  const suggestion = expected === KEY_FORMS ? meantKey(value) : closest(value, choices)
  return suggestion === undefined ? got : `${got} — did you mean "${suggestion}"?`
}

/** What other programs call it. */
const ELSE = /^(?:default|others?|otherwise|rest|fallback)$/i

function kindOf(value: unknown): string {
  if (typeof value === 'number') return 'a number'
  if (typeof value === 'boolean') return 'a boolean'
  return typeof value === 'string' && value !== '' ? `a text of ${value.length} characters` : show(value)
}
