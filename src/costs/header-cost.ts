import { AMBIGUOUS, type Cost, type RequestFacts } from './cost.ts'

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
