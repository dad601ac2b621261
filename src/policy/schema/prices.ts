import { z } from 'zod'
import { hasSixDecimals } from '../../costs/money.ts'
import { label } from './parts.ts'

/** Every worker reads all tables, so their number is bounded. */
export const MAX_TABLES = 100
const MAX_PATTERNS_IN_ALL = 10_000
/** The price of a million tokens, in units of the currency: at most one unit for each token. */
const MAX_PRICE = 1_000_000

const PRICE = `a price for a million tokens, a number from 0 to ${MAX_PRICE} with at most 6 decimals`

const price = z.number({ error: PRICE }).min(0, { error: PRICE }).max(MAX_PRICE, { error: PRICE }).refine(hasSixDecimals, { error: PRICE })

const modelPrices = z.object(
  {
    input: price.meta({ description: 'Prompt tokens.' }),
    cached_input: price.optional().meta({ description: "Prompt tokens read from the provider's cache; default input." }),
    cache_write: price.optional().meta({ description: "Prompt tokens written to the provider's cache; default input." }),
    output: price.meta({ description: 'Completion tokens.' }),
  },
  { error: 'an object with input and output (prices has tables, and a table has models)' },
)

const PATTERN = 'a model, or a prefix that ends in *, in 1 to 256 printable ASCII characters'

const pattern = z.string({ error: PATTERN }).regex(/^[\x20-\x29\x2b-\x7e]{0,255}[\x20-\x7e]$/, { error: PATTERN })

const table = z
  .record(pattern, modelPrices, { error: 'an object with a price for each model' })
  .refine((models) => Object.hasOwn(models, '*'), { error: 'a price for every other model, so that none is free by accident', path: ['*'] })
  .meta({ required: ['*'] })

export const pricesSchema = z
  .record(label, table, { error: 'an object with tables of prices' })
  .refine((tables) => Object.keys(tables).length <= MAX_TABLES, { error: `at most ${MAX_TABLES} tables` })
  .refine((tables) => patternsIn(tables) <= MAX_PATTERNS_IN_ALL, { error: `at most ${MAX_PATTERNS_IN_ALL} models in all tables` })
  .meta({ description: 'Tables of prices by model, for cost_budget. In units of your currency for a million tokens.' })

export type PricesConfig = z.output<typeof pricesSchema>

function patternsIn(tables: Readonly<Record<string, object>>): number {
  let patterns = 0
  for (const models of Object.values(tables)) patterns += Object.keys(models).length
  return patterns
}
