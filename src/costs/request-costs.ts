import { AMBIGUOUS, type Cost, RELEASED, type RequestFacts } from './cost.ts'

/** One for each request, or the number given with the question. 0 takes nothing and only checks. */
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
  // Tokens are pre-fetched for takes of one.
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
  /** In lower case. */
  readonly header: string
  /** The cost where the field is missing or not a positive number. */
  readonly default: number
  /** The most that the field can make a request cost. */
  readonly max: number
}

/** The number in a header field; one given with the question replaces it. A repeated field is never guessed. */
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
 * Digits, perhaps with a point and more digits; 0 for anything else. No sign, exponent, hexadecimal digits or spaces: every reader
 * understands such a number in the same way. One with very many digits is Infinity, which is above every maximum.
 */
function decimal(text: string): number {
  return DECIMAL.test(text) ? Number(text) : 0
}

/** One request in flight: held while it is, and released at its end, whatever it used. A question at no cost only checks. */
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

/** Of rules without counters. */
export const NOTHING: Cost = Object.freeze({ needsBody: false, isLeasable: false, of: () => 0, settling: undefined } satisfies Cost)
