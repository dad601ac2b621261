import { z } from 'zod'
import { DEFAULT_FIRST_TOKENS } from '../../llm/usage.ts'
import { flag } from './parts.ts'

const MIN_STEP = 100
const MAX_STEP = 1_000_000
const MAX_FIRST = 999_999_999_999_999
const FIRST = `a whole number of completion tokens, from ${MIN_STEP} to ${MAX_FIRST}`
const STEP = `a whole number of completion tokens, from ${MIN_STEP} to ${MAX_STEP}`

/** A field of token budgets and of money budgets. */
export const reserveConfig = z
  .object(
    {
      first: z
        .int({ error: FIRST })
        .min(MIN_STEP, { error: FIRST })
        .max(MAX_FIRST, { error: FIRST })
        .default(DEFAULT_FIRST_TOKENS)
        .meta({ description: 'Completion tokens that a stream reserves before it begins.' }),
      step: z
        .int({ error: STEP })
        .min(MIN_STEP, { error: STEP })
        .max(MAX_STEP, { error: STEP })
        .default(1000)
        .meta({ description: 'Completion tokens that it asks for at a time while it runs.' }),
    },
    { error: 'an object with first and step, or {} for 2000 and 1000' },
  )
  .refine(({ first, step }) => first >= step, {
    path: ['first'],
    error: 'a number no lower than step (first is 2000 and step 1000 if left out)',
  })

export const RESERVE = 'Reserve little for a stream, and more while it runs; it is cut when the budget is used up.'

export const onLimitExceeded = z
  .enum(['graceful_close', 'error_chunk'], { error: '"graceful_close" or "error_chunk"' })
  .meta({ description: 'How a cut stream ends: as if the model reached its token limit, or with an error.' })

export const includePartialUsage = flag('Add a usage object to each event and to the closing one.')
