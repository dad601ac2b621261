import { BudgetCost, type CostField } from '../../costs/llm-costs.ts'
import { HUNDREDTH, MAX_BUDGET, microOf } from '../../costs/money.ts'
import { ModelPrice, PriceTable, type TokenPrices } from '../../costs/price-table.ts'
import type { LlmSettings, ReserveSettings } from '../../llm/llm-request.ts'
import { DEFAULT_FIRST_TOKENS, maxCompletionTokens } from '../../llm/usage.ts'
import { quoted } from '../../text/printable.ts'
import type { CostBudgetConfig } from '../schema/cost-budget.ts'
import type { PricesConfig } from '../schema/prices.ts'
import type { CompiledRule, PartLimit } from './compiled-rule.ts'
import { sharesOf, windowIdentity, windowLimit } from './request-cost.ts'

export function compileCostBudget(config: CostBudgetConfig, tables: PriceTables): CompiledRule {
  const prices = config.prices === undefined ? undefined : tables.named(config.prices)
  const { cost, without_usage: withoutUsage, reserve, streaming, websockets } = config
  return {
    cost: new BudgetCost(prices, cost && fieldOf(cost), withoutUsage, reserve),
    llm: reserve && growingSettings(reserve, config),
    asksUsage: streaming.ask_usage,
    refusesSockets: websockets !== 'reserve',
  }
}

/** A budget of money that grows watches streams. It states no bound of its own, so there is nothing to check between the steps of its growth. */
function growingSettings(reserve: ReserveSettings, { without_usage, streaming }: CostBudgetConfig): LlmSettings {
  const { on_limit_exceeded = 'graceful_close', include_partial_usage = true } = streaming
  return Object.freeze({
    maxCompletionTokens: undefined,
    withoutUsage: without_usage,
    reserve: Object.freeze(reserve),
    streaming: Object.freeze({
      enabled: true,
      enforceMidStream: true,
      bufferTokens: Number.POSITIVE_INFINITY,
      onLimitExceeded: on_limit_exceeded,
      includePartialUsage: include_partial_usage,
    }),
  })
}

export function costBudgetLimits(config: CostBudgetConfig): PartLimit[] {
  const limit = { ...windowLimit(nano(config.budget), config), warnings: sharesOf(nano(config.budget), config.warn_at_percent) }
  return [{ part: 'budget', limit, reason: 'budget_exceeded', identity: windowIdentity(limit), unit: HUNDREDTH }]
}

function fieldOf({ header, default: missing, max = MAX_BUDGET }: NonNullable<CostBudgetConfig['cost']>): CostField {
  return { header: header.toLowerCase(), missing: nano(missing), max: nano(max) }
}

/** Converts units of the currency to billionths. */
function nano(units: number): number {
  return microOf(units) * 1000
}

/** What coding agents ask for by default, and more than most responses have. */
const AGENTS_TOKENS = 64_000

/** Warns about costs that the budget can never cover, and recommends `reserve` where it would help. */
export function* costBudgetSurprises({ budget, cost, prices, reserve }: CostBudgetConfig, tables: PricesConfig): Generator<string> {
  if (cost !== undefined && cost.default > budget) {
    yield `a request without ${cost.header} costs ${cost.default}, more than budget (${budget}) can ever hold: it is always rejected`
  }
  const model = prices === undefined ? undefined : dearestOf(tables[prices])
  if (model === undefined) return
  const tokens = maxCompletionTokens(undefined, undefined)
  const first = reserve?.first ?? DEFAULT_FIRST_TOKENS
  const [stream, unstated, stated] = [model.costOf(first), model.costOf(tokens), model.costOf(AGENTS_TOKENS)]
  const never = `more than budget (${budget}) can ever hold: it is always rejected`
  if (reserve !== undefined && stream > budget) {
    yield `a stream reserves ${stream} at the price of ${model.name} (reserve.first, ${first} tokens), ${never}`
  } else if (unstated > budget) {
    const which = reserve === undefined ? '' : ' that is no stream'
    yield `a request without max_tokens${which} reserves ${unstated} at the price of ${model.name} (${tokens} tokens), ${never}`
  } else if (reserve === undefined && stated > budget && stream <= budget) {
    yield `a request with max_tokens: ${AGENTS_TOKENS}, as agents send it, reserves ${stated} at the price of ${model.name}, ${never}. With reserve: {} a stream reserves ${stream}`
  }
}

interface DearestModel {
  /** In quotation marks. */
  readonly name: string
  /** What a completion of so many tokens costs without its prompt, in units of the currency. */
  costOf(tokens: number): number
}

/** A table may have thousands of models, and a bundle thousands of rules that use it. */
const DEAREST = new WeakMap<PricesConfig[string], DearestModel>()

/** Returns the model whose long completions cost most; undefined if the table is missing or empty, which is a problem of its own. */
function dearestOf(table: PricesConfig[string] | undefined): DearestModel | undefined {
  if (table === undefined) return undefined
  const known = DEAREST.get(table)
  if (known !== undefined) return known
  let found: { readonly pattern: string; readonly prices: ModelPricesConfig } | undefined
  for (const [pattern, prices] of Object.entries(table)) {
    if (found === undefined || completionCost(prices, AGENTS_TOKENS) > completionCost(found.prices, AGENTS_TOKENS))
      found = { pattern, prices }
  }
  if (found === undefined) return undefined
  const { pattern, prices } = found
  const model = { name: quoted(pattern), costOf: (tokens: number) => completionCost(prices, tokens) }
  DEAREST.set(table, model)
  return model
}

/** Rounded to billionths of a unit, which is what budgets count. */
function completionCost({ output, per_request = 0 }: ModelPricesConfig, tokens: number): number {
  return Math.round((tokens * microOf(output)) / 1000 + microOf(per_request) * 1000) / 1e9
}

/** The price tables of a bundle, each compiled when a rule first uses it. */
export class PriceTables {
  readonly #config: PricesConfig
  readonly #compiled = new Map<string, PriceTable>()

  constructor(config: PricesConfig = {}) {
    this.#config = config
  }

  /** Returns a table, which must exist: a bundle whose rules name an unknown table is refused. */
  named(name: string): PriceTable {
    const known = this.#compiled.get(name)
    if (known !== undefined) return known
    const models = Object.entries(this.#config[name]!)
    const compiled = new PriceTable(models.map(([model, prices]) => [model, modelPrice(prices)]))
    this.#compiled.set(name, compiled)
    return compiled
  }
}

type ModelPricesConfig = PricesConfig[string][string]

function modelPrice({ above, per_request = 0, ...own }: ModelPricesConfig): ModelPrice {
  const long = above && {
    ...tokenPrices({ ...own, ...above, input: above.input ?? own.input, output: above.output ?? own.output }),
    tokens: above.tokens,
  }
  return new ModelPrice({ ...tokenPrices(own), above: long, perRequest: nano(per_request) })
}

function tokenPrices(config: Omit<ModelPricesConfig, 'above' | 'per_request'>): TokenPrices {
  const { input, cached_input = input, cache_write = input, cache_write_1h = cache_write, output } = config
  const [cachedInput, cacheWrite, cacheWrite1h] = [microOf(cached_input), microOf(cache_write), microOf(cache_write_1h)]
  return { input: microOf(input), cachedInput, cacheWrite, cacheWrite1h, output: microOf(output) }
}

/** Warns about tables in which models without a price of their own are free. */
export function* priceSurprises(tables: PricesConfig): Generator<{ readonly table: string; readonly message: string }> {
  for (const [name, models] of Object.entries(tables)) {
    const { input, output, per_request = 0 } = models['*']!
    if (input === 0 && output === 0 && per_request === 0)
      yield { table: name, message: 'the price for "*" is 0: every model without a price of its own is free' }
  }
}
