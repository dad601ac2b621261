import { AMBIGUOUS, type Cost, RELEASED, type RequestFacts } from './cost.ts'

/** Takes one for each request, or the number given with the question. If that is 0, nothing is taken and the limit is only checked. */
export const GIVEN: Cost = Object.freeze({
  needsBody: false,
  isLeasable: true,
  of: ({ given }) => given,
  settling: undefined,
} satisfies Cost)

/** Throws a RangeError for a number that cannot be taken: a negative one would add tokens, and NaN would pass every comparison. */
export function checkedGiven(given: number, name = 'cost'): number {
  if (Number.isFinite(given) && given >= 0) return given
  throw new RangeError(`${name}: expected a finite number of at least 0, got ${shown(given)}`)
}

function shown(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value)
}

/** The same amount for every request; a number given with the question replaces it. */
export class FixedCost implements Cost {
  readonly needsBody = false
  // Only takes of one are served from pre-fetched tokens.
  readonly isLeasable = false
  readonly settling = undefined
  readonly #amount: number

  constructor(amount: number) {
    this.#amount = amount
  }

  of({ isGiven, given }: RequestFacts): number {
    return isGiven ? given : this.#amount
  }
}

export interface HeaderCostSettings {
  /** The name of the field, in lower case. */
  readonly header: string
  /** The cost if the field is missing or not a positive number. */
  readonly default: number
  /** The most that the field can make a request cost. */
  readonly max: number
}

/** The number in a header field; a number given with the question replaces it. A repeated field makes the cost ambiguous. */
export class HeaderCost implements Cost {
  readonly needsBody = false
  readonly isLeasable = false
  readonly settling = undefined
  /** The field that it reads, in lower case. */
  readonly header: string
  readonly #default: number
  readonly #max: number

  constructor({ header, default: fallback, max }: HeaderCostSettings) {
    this.header = header
    this.#default = fallback
    this.#max = max
  }

  of(facts: RequestFacts): number {
    if (facts.isGiven) return facts.given
    const text = facts.headerText(this.header)
    if (text === null) return AMBIGUOUS
    const amount = text === undefined ? 0 : decimal(text)
    return amount > 0 ? Math.min(amount, this.#max) : this.#default
  }
}

const DECIMAL = /^\d+(?:\.\d+)?$/

/**
 * Reads digits, optionally with a point and more digits; returns 0 for anything else. Signs, exponents, hexadecimal digits and spaces are
 * refused, because not every reader understands them in the same way. Very many digits give Infinity, which is above every maximum.
 */
function decimal(text: string): number {
  return DECIMAL.test(text) ? Number(text) : 0
}

/** One request in flight: a hold that is released when the request ends, whatever it used. A question with a cost of 0 only checks. */
export const HOLD: Cost = Object.freeze({
  needsBody: false,
  isLeasable: false,
  of: ({ given }: RequestFacts) => (given === 0 ? 0 : 1),
  settling: Object.freeze({
    at: 'end',
    applies: ({ given }: RequestFacts) => given !== 0,
    settled: () => 0,
    record: RELEASED,
  }),
} satisfies Cost)

/** The cost of rules without counters. */
export const NOTHING: Cost = Object.freeze({ needsBody: false, isLeasable: false, of: () => 0, settling: undefined } satisfies Cost)
