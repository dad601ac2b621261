import type { Cost } from '../../costs/cost.ts'
import { FixedCost } from '../../costs/fixed-cost.ts'
import { GIVEN } from '../../costs/given.ts'
import { HeaderCost } from '../../costs/header-cost.ts'
import { MAX_AMOUNT } from '../max-tokens.ts'
import type { RequestCostConfig } from '../schema/request-cost.ts'

export function compileRequestCost({ cost = 1 }: RequestCostConfig): Cost {
  if (typeof cost === 'number') return cost === 1 ? GIVEN : new FixedCost(cost)
  return new HeaderCost({ header: cost.header.toLowerCase(), default: cost.default, max: cost.max ?? MAX_AMOUNT })
}

/** Costs that a limit can never cover, and debts without a bound. `sizeName`: the field that has its size. */
export function* requestCostSurprises({ cost = 1, when_over }: RequestCostConfig, size: number, sizeName: string): Generator<string> {
  const isFixed = typeof cost === 'number'
  const usual = isFixed ? cost : cost.default
  if (when_over === 'reject' && usual > size) {
    const which = isFixed ? `each request costs ${usual} (cost)` : `a request without ${cost.header} costs ${usual} (cost.default)`
    yield `${which}, more than ${sizeName} (${size}) can ever hold: it is always rejected`
  }
  if (when_over === 'charge' && !isFixed && cost.max === undefined) {
    yield `one request with a high ${cost.header} can leave a debt that lasts for years: set cost.max`
  }
}
