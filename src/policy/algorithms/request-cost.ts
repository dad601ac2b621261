import type { Cost } from '../../costs/cost.ts'
import { FixedCost, GIVEN, HeaderCost } from '../../costs/request-costs.ts'
import { anchoredPeriod, calendarOf } from '../../limiter/calendar.ts'
import { type WarningShare, WINDOW, type WindowLimit } from '../../limiter/limit.ts'
import { anchorDay, type WindowConfig } from '../anchor.ts'
import type { RequestCostConfig } from '../schema/request-cost.ts'
import { MAX_AMOUNT } from './rate.ts'

export function compileRequestCost({ cost = 1 }: RequestCostConfig): Cost {
  if (typeof cost === 'number') return cost === 1 ? GIVEN : new FixedCost(cost)
  return new HeaderCost({ header: cost.header.toLowerCase(), default: cost.default, max: cost.max ?? MAX_AMOUNT })
}

/** Warns about costs that the limit can never cover, and about unbounded debts. `sizeName` is the field that sets the limit's size. */
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

export function windowLimit(tokens: number, { period, timezone, anchor }: WindowConfig, canOverdraw = false): WindowLimit {
  return { kind: WINDOW, tokens, calendar: calendarOf(period, timezone, anchorDay(anchor)), canOverdraw }
}

/** Tells the counters of one calendar from those of another, by its period, its anchor and the canonical name of its zone. */
export function windowIdentity({ calendar }: WindowLimit): readonly string[] {
  return [anchoredPeriod(calendar), calendar.zone]
}

/** Returns the amounts at which so many percent of a window are used, in ascending order, rounded up. No product exceeds what is exact. */
export function sharesOf(size: number, percents: readonly number[] | undefined): readonly WarningShare[] | undefined {
  const ascending = [...new Set(percents)].sort((a, b) => a - b)
  const [hundredth, rest] = [Math.floor(size / 100), size % 100]
  return percents && ascending.map((percent) => ({ percent, tokens: hundredth * percent + Math.ceil((rest * percent) / 100) }))
}
