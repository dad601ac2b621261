import { z } from 'zod'
import { askUsage, flag, tokens, unseenPromptTokens, warnAtPercent, websockets, withoutUsage } from './parts.ts'
import { includePartialUsage, onLimitExceeded, RESERVE, reserveConfig } from './reserve.ts'

export const streamingConfig = z.object(
  {
    enabled: flag('Count streamed responses; false lets them pass unread, and the reservation is kept.').default(true),
    enforce_mid_stream: flag('Cut a stream that exceeds max_completion_tokens; false only counts it.').default(true),
    buffer_tokens: tokens('tokens between two checks')
      .default(100)
      .meta({ description: 'Tokens between two checks; a stream may exceed its limit by this many.' }),
    on_limit_exceeded: onLimitExceeded.default('graceful_close'),
    include_partial_usage: includePartialUsage.default(true),
    ask_usage: askUsage,
  },
  { error: 'an object' },
)

const WEIGHT = 'how much such a token counts, a number from 0 to 100 with at most 2 decimals (1 counts it once)'

const weight = (description: string) =>
  z
    .number({ error: WEIGHT })
    .min(0, { error: WEIGHT })
    .max(100, { error: WEIGHT })
    .refine((value) => Math.round(value * 100) / 100 === value, { error: WEIGHT })
    .default(1)
    .meta({ description })

const countConfig = z.object(
  {
    input: weight('Prompt tokens that are neither read from the cache nor written to it.'),
    cached_input: weight("Prompt tokens read from the provider's cache."),
    cache_write: weight("Prompt tokens written to the provider's cache."),
    output: weight('Completion tokens, reasoning included.'),
  },
  { error: 'an object with input, cached_input, cache_write or output (leave count out to count every token once)' },
)

export const tokenBucketLlmConfig = z
  .object(
    {
      tokens_per_minute: tokens('tokens').optional().meta({ description: 'Per-minute budget, refilled continuously.' }),
      tokens_per_day: tokens('tokens').optional().meta({ description: 'Budget for one UTC day.' }),
      burst_tokens: tokens('tokens').optional().meta({ description: 'Size of the minute bucket; default tokens_per_minute.' }),
      max_completion_tokens: tokens('tokens')
        .optional()
        .meta({ description: 'Upper bound of one completion: the most reserved for it, and where a stream is cut.' }),
      count: countConfig.optional().meta({ description: 'How much each kind of token counts; without it, every token counts once.' }),
      reserve: reserveConfig.optional().meta({ description: RESERVE }),
      without_usage: withoutUsage,
      unseen_prompt_tokens: unseenPromptTokens,
      websockets,
      streaming: streamingConfig.prefault({}),
      warn_at_percent: warnAtPercent
        .optional()
        .meta({ description: 'Percentages of tokens_per_day at which to warn, once for each day and caller.' }),
    },
    { error: 'an object with tokens_per_minute or tokens_per_day' },
  )
  .refine((value) => value.tokens_per_minute !== undefined || value.tokens_per_day !== undefined, {
    error: 'at least one of tokens_per_minute and tokens_per_day',
  })
  .refine((value) => value.warn_at_percent === undefined || value.tokens_per_day !== undefined, {
    path: ['warn_at_percent'],
    error: 'tokens_per_day beside it: percentages are of the day, and a minute refills all the time',
  })

export type TokenBucketLlmConfig = z.output<typeof tokenBucketLlmConfig>
