import { z } from 'zod'
import { hasSixDecimals } from '../../costs/money.ts'
import { modelsOf, type PriceTableConfig, unversioned } from '../../costs/price-table.ts'
import { label } from './parts.ts'

/** Every worker reads all tables, so their number is bounded. */
export const MAX_TABLES = 100
const MAX_PATTERNS_IN_ALL = 10_000
/** The price of a million tokens, in units of the currency: at most one unit for each token. */
const MAX_PRICE = 1_000_000

const PRICE = `a price for a million tokens, a number from 0 to ${MAX_PRICE} with at most 6 decimals`

const PER_REQUEST = `an amount for each request, a number from 0 to ${MAX_PRICE} with at most 6 decimals`
const THRESHOLD = 'a whole number of input tokens, from 1 to 1000000000'

const price = z.number({ error: PRICE }).min(0, { error: PRICE }).max(MAX_PRICE, { error: PRICE }).refine(hasSixDecimals, { error: PRICE })

const requestPrice = z
  .number({ error: PER_REQUEST })
  .min(0, { error: PER_REQUEST })
  .max(MAX_PRICE, { error: PER_REQUEST })
  .refine(hasSixDecimals, { error: PER_REQUEST })

const longInputPrices = z.object(
  {
    tokens: z
      .int({ error: THRESHOLD })
      .min(1, { error: THRESHOLD })
      .max(1_000_000_000, { error: THRESHOLD })
      .meta({ description: 'A request with more input tokens than this has these prices, as a whole.' }),
    input: price.optional(),
    cached_input: price.optional(),
    cache_write: price.optional(),
    cache_write_1h: price.optional(),
    output: price.optional(),
  },
  { error: 'an object with tokens, and the prices that differ above so many input tokens' },
)

const modelPrices = z.object(
  {
    input: price.meta({ description: 'Prompt tokens.' }),
    cached_input: price.optional().meta({ description: "Prompt tokens read from the provider's cache; default input." }),
    cache_write: price.optional().meta({ description: "Prompt tokens written to the provider's cache; default input." }),
    cache_write_1h: price.optional().meta({ description: 'Prompt tokens that its cache keeps for an hour; default cache_write.' }),
    output: price.meta({ description: 'Completion tokens.' }),
    above: longInputPrices.optional().meta({ description: "Prices of requests with a long input; what it leaves out is the model's own." }),
    per_request: requestPrice
      .optional()
      .meta({ description: 'What each request costs beside its tokens, in units of the currency; default 0.' }),
  },
  { error: 'an object with input and output (prices has tables, and a table has models)' },
)

const PATTERN = 'a model, or a prefix that ends in *, in 1 to 256 printable ASCII characters'
const ALIASES = 'an object of names and the models that they stand for (no model can be called aliases)'
const ALIASED = 'the name of a model without *, in 1 to 256 printable ASCII characters'
const MAX_ALIASES = 1000

const PATTERN_CHARACTERS = /^[\x20-\x29\x2b-\x7e]{0,255}[\x20-\x7e]$/
const modelName = z.string({ error: ALIASED }).regex(/^[\x20-\x29\x2b-\x7e]{1,256}$/, { error: ALIASED })

const aliases = z
  .record(modelName, modelName, { error: ALIASES })
  .refine((names) => Object.keys(names).length <= MAX_ALIASES, { error: `at most ${MAX_ALIASES} aliases` })
  .meta({ description: 'Names that stand for models of the table, such as those of deployments: each has the price of its model.' })

const table = z
  .object({ aliases: aliases.optional() }, { error: 'an object with a price for each model' })
  .catchall(modelPrices)
  .check(checkNames)
  .meta({ required: ['*'], propertyNames: { type: 'string', pattern: PATTERN_CHARACTERS.source } })

export const pricesSchema = z
  .record(label, table, { error: 'an object with tables of prices' })
  .refine((tables) => Object.keys(tables).length <= MAX_TABLES, { error: `at most ${MAX_TABLES} tables` })
  .refine((tables) => patternsIn(tables) <= MAX_PATTERNS_IN_ALL, { error: `at most ${MAX_PATTERNS_IN_ALL} models in all tables` })
  .meta({ description: 'Tables of prices by model, for cost_budget. In units of your currency for a million tokens.' })

export type ModelPricesConfig = z.output<typeof modelPrices>
export type PricesConfig = Readonly<Record<string, PriceTableConfig>>

function checkNames({ value, issues }: z.core.ParsePayload<PriceTableConfig>): void {
  const models = modelsOf(value)
  for (const pattern of Object.keys(models)) {
    if (PATTERN_CHARACTERS.test(pattern)) continue
    const issue: z.core.$ZodRawIssue = { code: 'custom', message: PATTERN, input: pattern, path: [] }
    issues.push({ code: 'invalid_key', origin: 'record', issues: [issue as z.core.$ZodIssue], input: pattern, path: [pattern] })
  }
  const custom = (message: string, path: string[]): number => issues.push({ code: 'custom', message, input: value, path })
  if (!Object.hasOwn(models, '*')) custom('a price for every other model, so that none is free by accident', ['*'])
  for (const [alias, model] of Object.entries(value.aliases ?? {})) {
    if (Object.hasOwn(models, alias)) custom('a name without a price of its own: remove the alias, or the price', ['aliases', alias])
    if (Object.hasOwn(value.aliases!, model) || (!Object.hasOwn(models, model) && Object.hasOwn(value.aliases!, unversioned(model))))
      custom('the name of a model that is no alias itself', ['aliases', alias])
  }
}

function patternsIn(tables: PricesConfig): number {
  let patterns = 0
  for (const models of Object.values(tables)) patterns += Object.keys(modelsOf(models)).length
  return patterns
}
