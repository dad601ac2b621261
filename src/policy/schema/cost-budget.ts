import { z } from 'zod'
import { TOKEN } from '../../text/formats.ts'
import { MONEY } from '../limit-fields.ts'
import { askUsage, label, unseenPromptTokens, warnAtPercent, websockets, withoutUsage } from './parts.ts'
import { includePartialUsage, onLimitExceeded, RESERVE, reserveConfig } from './reserve.ts'
import { checkAnchor, windowFields } from './window.ts'

const money = z
  .number({ error: MONEY.expected })
  .positive({ error: MONEY.tooLow })
  .max(MONEY.max, { error: MONEY.tooHigh })
  .refine(MONEY.isCountable, { error: MONEY.expected })

const costField = z
  .object(
    {
      header: z
        .string({ error: 'the name of a header field' })
        .regex(TOKEN, { error: 'the name of a header field' })
        .max(256, { error: 'at most 256 characters' })
        .meta({ description: 'Header field with the cost of a request, in units of the currency.' }),
      default: money.meta({ description: 'The cost if the field is missing or not a positive number.' }),
      max: money.optional().meta({ description: 'The highest cost: a larger number in the field counts as this.' }),
    },
    { error: 'an object with header and default' },
  )
  .refine((value) => value.max === undefined || value.default <= value.max, { path: ['default'], error: 'a number no higher than max' })

export const costBudgetConfig = z
  .object(
    {
      budget: money.meta({ description: 'What may be spent in each window, in units of the currency.' }),
      ...windowFields,
      prices: label.optional().meta({ description: "A table of the bundle's prices: the cost is that of the request's model and tokens." }),
      cost: costField.optional().meta({ description: 'A header field with the cost, for requests whose body is not read.' }),
      reserve: reserveConfig.optional().meta({ description: RESERVE }),
      without_usage: withoutUsage,
      unseen_prompt_tokens: unseenPromptTokens,
      websockets,
      streaming: z
        .object(
          { ask_usage: askUsage, on_limit_exceeded: onLimitExceeded.optional(), include_partial_usage: includePartialUsage.optional() },
          { error: 'an object' },
        )
        .prefault({}),
      warn_at_percent: warnAtPercent
        .optional()
        .meta({ description: 'Percentages of the budget at which to warn, once for each window and caller.' }),
    },
    { error: 'an object with budget, period and prices' },
  )
  .check(checkAnchor)
  .refine((value) => value.prices !== undefined || value.cost !== undefined, {
    path: ['prices'],
    error: "the name of a table in the bundle's prices, or cost with header and default beside it",
  })

export type CostBudgetConfig = z.output<typeof costBudgetConfig>
