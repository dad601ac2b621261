import { completionBound } from './completion-bound.ts'
import { AMBIGUOUS, type Cost, type RequestFacts, type Settler, type Settling, type Usage } from './cost.ts'
import { settledMoney } from './model-price.ts'
import { nanoOf, readNano } from './money.ts'
import type { PriceTable } from './price-table.ts'
import { SETTLED_TO_COST } from './settling-kinds.ts'

/** A header field that says what a request costs, in units of the currency. The other numbers are in billionths. */
export interface CostField {
  readonly header: string
  /** Where the field is missing, or not a positive number. */
  readonly missing: number
  readonly max: number
}

/**
 * Money, in billionths: the most that a request may cost at the prices of its model, settled to its usage at the same prices; or what a header
 * field says. With both, the field counts only where no body was read. A number given with the question wins over either.
 */
export class BudgetCost implements Cost, Settling {
  readonly needsBody: boolean
  readonly isLeasable = false
  readonly at = 'usage'
  readonly settling = this
  readonly record = SETTLED_TO_COST
  readonly header: string | undefined
  readonly #prices: PriceTable | undefined
  readonly #field: CostField | undefined

  /** At least one of them. */
  constructor(prices: PriceTable | undefined, field: CostField | undefined) {
    this.needsBody = prices !== undefined
    this.header = field?.header
    this.#prices = prices
    this.#field = field
  }

  of(facts: RequestFacts): number {
    if (facts.isGiven) return nanoOf(facts.given)!
    const prices = this.#prices
    const { body } = facts
    if (prices === undefined || (body === undefined && this.#field !== undefined)) return costIn(this.#field!, facts)
    return prices.priceOf(body?.model).reserved(body?.promptTokens ?? 0, completionBound(facts, undefined))
  }

  /** Where the proxy has not read the request's body, it does not read the response either. */
  applies({ body, isSettledLater }: RequestFacts): boolean {
    return isSettledLater || (body !== undefined && this.#prices !== undefined)
  }

  forRequest({ body }: RequestFacts): Settler {
    return this.#prices?.priceOf(body?.model) ?? this
  }

  settled(_amount: number, usage: Usage): number | undefined {
    return settledMoney(usage)
  }
}

function costIn({ header, missing, max }: CostField, facts: RequestFacts): number {
  const text = facts.headerText(header)
  if (text === null) return AMBIGUOUS
  const cost = text === undefined ? 0 : readNano(text)
  return cost === 0 ? missing : Math.min(cost, max)
}
