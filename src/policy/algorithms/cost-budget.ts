import { BudgetCost, type CostField } from '../../costs/llm-costs.ts'
import { HUNDREDTH, MAX_BUDGET, microOf } from '../../costs/money.ts'
import { ModelPrice, modelsOf, PriceTable, type TokenPrices } from '../../costs/price-table.ts'
import { DEFAULT_UNSEEN_TOKENS, type UnseenPrompt } from '../../costs/unseen-prompt.ts'
import type { LlmSettings, ReserveSettings } from '../../llm/llm-request.ts'
import { DEFAULT_FIRST_TOKENS, maxCompletionTokens } from '../../llm/usage.ts'
import { quoted } from '../../text/printable.ts'
import { formatPath, type Problem } from '../../text/problem.ts'
import type { Bundle } from '../schema/bundle.ts'
import type { CostBudgetConfig } from '../schema/cost-budget.ts'
import type { ModelPricesConfig, PricesConfig } from '../schema/prices.ts'
import type { CompiledRule, PartLimit } from './compiled-rule.ts'
import { sharesOf, windowIdentity, windowLimit } from './request-cost.ts'

export function compileCostBudget(config: CostBudgetConfig, tables: PriceTables): CompiledRule {
  const prices = config.prices === undefined ? undefined : tables.named(config.prices)
  const { cost, without_usage: withoutUsage, reserve, streaming, websockets } = config
  return {
    cost: new BudgetCost(prices, cost && fieldOf(cost), withoutUsage, reserve, unseenPrompt(config)),
    llm: reserve && growingSettings(reserve, config),
    asksUsage: streaming.ask_usage,
    refusesSockets: websockets !== 'reserve',
  }
}

function unseenPrompt({ unseen_prompt_tokens: tokens, budget, period }: CostBudgetConfig): UnseenPrompt | undefined {
  if (tokens !== undefined) return { tokens, of: undefined }
  return isInMinutes(period) ? undefined : { tokens: DEFAULT_UNSEEN_TOKENS, of: nano(budget) }
}

function isInMinutes(period: string): boolean {
  return /^\d+m$/.test(period)
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
  const dearest = prices === undefined ? undefined : dearestOf(tables[prices])
  if (dearest === undefined) return
  const { model, named } = dearest
  const tokens = maxCompletionTokens(undefined, undefined)
  const first = reserve?.first ?? DEFAULT_FIRST_TOKENS
  const [stream, unstated] = [model.costOf(first), model.costOf(tokens)]
  const never = `more than budget (${budget}) can ever hold: it is always rejected`
  if (reserve !== undefined && stream > budget) {
    yield `a stream reserves ${stream} at the price of ${model.name} (reserve.first, ${first} tokens), ${never}`
  } else if (unstated > budget) {
    const which = reserve === undefined ? '' : ' that is no stream'
    yield `a request without max_tokens${which} reserves ${unstated} at the price of ${model.name} (${tokens} tokens), ${never}`
  } else if (reserve === undefined && named !== undefined && named.costOf(AGENTS_TOKENS) > budget && named.costOf(first) <= budget) {
    const stated = `a request with max_tokens: ${AGENTS_TOKENS}, as agents send it, reserves ${named.costOf(AGENTS_TOKENS)}`
    yield `${stated} at the price of ${named.name}, ${never}. With reserve: {} a stream reserves ${named.costOf(first)}`
  }
}

interface DearestModel {
  /** In quotation marks. */
  readonly name: string
  /** What a completion of so many tokens costs without its prompt, in units of the currency. */
  costOf(tokens: number): number
}

interface DearestModels {
  /** Of the whole table. */
  readonly model: DearestModel
  /** Without `*`, which stands for models that no one may ever ask for; undefined if there is no other. */
  readonly named: DearestModel | undefined
}

/** A table may have thousands of models, and a bundle thousands of rules that use it. */
const DEAREST = new WeakMap<PricesConfig[string], DearestModels>()

/** Returns the models whose long completions cost most; undefined if the table is missing or empty, which is a problem of its own. */
function dearestOf(table: PricesConfig[string] | undefined): DearestModels | undefined {
  if (table === undefined) return undefined
  const known = DEAREST.get(table)
  if (known !== undefined) return known
  const { '*': other, ...models } = modelsOf<ModelPricesConfig>(table)
  const named = dearestIn(models)
  const model = dearestIn({ ...(other && { '*': other }), ...(named && { [named.pattern]: models[named.pattern]! }) })
  if (model === undefined) return undefined
  const found = { model, named }
  DEAREST.set(table, found)
  return found
}

function dearestIn(models: Readonly<Record<string, ModelPricesConfig>>): (DearestModel & { readonly pattern: string }) | undefined {
  let found: readonly [pattern: string, prices: ModelPricesConfig] | undefined
  for (const each of Object.entries(models)) {
    if (found === undefined || completionCost(each[1], AGENTS_TOKENS) > completionCost(found[1], AGENTS_TOKENS)) found = each
  }
  if (found === undefined) return undefined
  const [pattern, prices] = found
  return { pattern, name: quoted(pattern), costOf: (tokens) => completionCost(prices, tokens) }
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
    const table = this.#config[name]!
    const models = Object.entries(modelsOf<ModelPricesConfig>(table))
    const compiled = new PriceTable(
      models.map(([model, prices]) => [model, modelPrice(prices)]),
      table.aliases,
    )
    this.#compiled.set(name, compiled)
    return compiled
  }
}

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

/** No price for a million tokens is as low for both kinds: it is one for a thousand. */
const TINY_PRICE = 0.01

interface PriceSurprise {
  readonly path: readonly string[]
  readonly message: string
}

/** Warns about tables in which models without a price of their own are free, prices for a thousand tokens, and aliases that have no effect. */
export function* priceSurprises(tables: PricesConfig): Generator<PriceSurprise> {
  const compiled = new PriceTables(tables)
  for (const [name, table] of Object.entries(tables)) {
    const models = modelsOf<ModelPricesConfig>(table)
    const { input, output, per_request = 0 } = models['*']!
    if (input === 0 && output === 0 && per_request === 0)
      yield { path: [name], message: 'the price for "*" is 0: every model without a price of its own is free' }
    for (const [model, prices] of Object.entries(models)) {
      const [least, most] = [Math.min(prices.input, prices.output), Math.max(prices.input, prices.output)]
      if (most > 0 && most <= TINY_PRICE)
        yield { path: [name, model], message: `prices are for a million tokens: ${least} and ${most} look like prices for a thousand` }
    }
    for (const [alias, model] of Object.entries(table.aliases ?? {})) {
      if (compiled.named(name).isUnlisted(model))
        yield {
          path: [name, 'aliases', alias],
          message: `it has no effect, because only "*" has a price for ${quoted(model)}: add that model`,
        }
    }
  }
}

/** Warns about models that routes send, in budgets that charge them the price of every model without one. */
export function* routedModelSurprises({ policies, prices = {}, routes = [] }: Bundle): Generator<Problem> {
  const compiled = new PriceTables(prices)
  const tables = new Set(
    policies.flatMap(({ spec }) =>
      spec.rules.flatMap((rule) => (rule.algorithm === 'cost_budget' ? (rule.algorithm_config.prices ?? []) : [])),
    ),
  )
  for (const [r, { backends, fallback = [] }] of routes.entries()) {
    for (const [list, choices] of Object.entries({ backends, fallback })) {
      for (const [c, { model }] of choices.entries()) {
        const table = model === undefined ? undefined : [...tables].find((each) => compiled.named(each).isUnlisted(model))
        if (table === undefined) continue
        const message = `only "*" of prices.${table} has a price for ${quoted(model!)}: add the model, or an alias for it`
        yield { path: formatPath(['routes', r, list, c, 'model']), message }
      }
    }
  }
}
