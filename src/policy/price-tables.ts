import { ModelPrice } from '../costs/model-price.ts'
import { microOf } from '../costs/money.ts'
import { PriceTable } from '../costs/price-table.ts'
import type { PricesConfig } from './schema/prices.ts'

/** The tables of a bundle, each compiled when a rule first uses it. */
export class PriceTables {
  readonly #config: PricesConfig
  readonly #compiled = new Map<string, PriceTable>()

  constructor(config: PricesConfig = {}) {
    this.#config = config
  }

  /** A table that exists: a bundle with a rule on any other is refused. */
  named(name: string): PriceTable {
    const known = this.#compiled.get(name)
    if (known !== undefined) return known
    const models = Object.entries(this.#config[name]!)
    const compiled = new PriceTable(models.map(([model, prices]) => [model, modelPrice(prices)]))
    this.#compiled.set(name, compiled)
    return compiled
  }
}

function modelPrice({ input, cached_input = input, cache_write = input, output }: PricesConfig[string][string]): ModelPrice {
  const [cachedInput, cacheWrite] = [microOf(cached_input), microOf(cache_write)]
  return new ModelPrice({ input: microOf(input), cachedInput, cacheWrite, output: microOf(output) })
}

/** Tables in which a model without a price of its own is free. */
export function* priceSurprises(tables: PricesConfig): Generator<{ readonly table: string; readonly message: string }> {
  for (const [name, models] of Object.entries(tables)) {
    const { input, output } = models['*']!
    if (input === 0 && output === 0)
      yield { table: name, message: 'the price for "*" is 0: every model without a price of its own is free' }
  }
}
