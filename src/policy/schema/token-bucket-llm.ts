import { z } from 'zod'
import { askUsage, flag, tokens, withoutUsage } from './parts.ts'

export const streamingConfig = z.object(
  {
    enabled: flag('Count streamed responses; false lets them pass unread, and the reservation is kept.').default(true),
    enforce_mid_stream: flag('Cut a stream that exceeds max_completion_tokens; false only counts it.').default(true),
    buffer_tokens: tokens('tokens between two checks')
      .default(100)
      .meta({ description: 'Tokens between two checks; a stream may exceed its limit by this many.' }),
    on_limit_exceeded: z
      .enum(['graceful_close', 'error_chunk'], { error: '"graceful_close" or "error_chunk"' })
      .default('graceful_close')
      .meta({ description: 'How a cut stream ends: as if the model reached its token limit, or with an error.' }),
    include_partial_usage: flag('Add a usage object to each event and to the closing one.').default(true),
    ask_usage: askUsage,
  },
  { error: 'an object' },
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
      without_usage: withoutUsage,
      streaming: streamingConfig.prefault({}),
    },
    { error: 'an object with tokens_per_minute or tokens_per_day' },
  )
  .refine((value) => value.tokens_per_minute !== undefined || value.tokens_per_day !== undefined, {
    error: 'at least one of tokens_per_minute and tokens_per_day',
  })

export type TokenBucketLlmConfig = z.output<typeof tokenBucketLlmConfig>
