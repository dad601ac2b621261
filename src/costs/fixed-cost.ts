import type { Cost, RequestFacts } from './cost.ts'

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
