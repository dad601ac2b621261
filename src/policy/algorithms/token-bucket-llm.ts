import { z } from 'zod'
import { LlmReservation } from '../../costs/llm-reservation.ts'
import { BUCKET, type Limit } from '../../limiter/limit.ts'
import type { LlmSettings } from '../../llm/llm-settings.ts'
import { maxCompletionTokens } from '../../llm/tokens.ts'
import { flag, tokens } from '../schema-parts.ts'
import type { CompiledRule, PartLimit } from './compiled-rule.ts'
import { windowLimit } from './window-config.ts'

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
      streaming: streamingConfig.prefault({}),
    },
    { error: 'an object with tokens_per_minute or tokens_per_day' },
  )
  .refine((value) => value.tokens_per_minute !== undefined || value.tokens_per_day !== undefined, {
    error: 'at least one of tokens_per_minute and tokens_per_day',
  })

type Config = z.output<typeof tokenBucketLlmConfig>

export function compileTokenBucketLlm(config: Config): CompiledRule {
  const llm = llmSettings(config)
  return { cost: new LlmReservation(llm), limits: limitsOf(config), llm }
}

function llmSettings(config: Config): LlmSettings {
  const { streaming } = config
  return Object.freeze({
    maxCompletionTokens: config.max_completion_tokens,
    streaming: Object.freeze({
      enabled: streaming.enabled,
      enforceMidStream: streaming.enforce_mid_stream,
      bufferTokens: streaming.buffer_tokens,
      onLimitExceeded: streaming.on_limit_exceeded,
      includePartialUsage: streaming.include_partial_usage,
    }),
  })
}

/** The minute comes first: if it cannot cover a request, it is the reason, even if the day cannot either. */
function limitsOf({ tokens_per_minute, tokens_per_day, burst_tokens }: Config): PartLimit[] {
  const limits: PartLimit[] = []
  if (tokens_per_minute !== undefined) {
    const limit: Limit = { kind: BUCKET, tokensPerMs: tokens_per_minute / 60_000, burst: burst_tokens ?? tokens_per_minute }
    limits.push({ part: 'minute', limit, reason: 'tpm_exceeded' })
  }
  if (tokens_per_day !== undefined) {
    limits.push({ part: 'day', limit: windowLimit(tokens_per_day, '1d', 'UTC'), reason: 'tpd_exceeded' })
  }
  return limits
}

/** Budgets that can never cover one request. */
export function* tokenBucketLlmSurprises(config: Config): Generator<string> {
  const perMinute = config.tokens_per_minute
  if (perMinute === undefined && config.burst_tokens !== undefined) yield 'burst_tokens has no effect without tokens_per_minute'
  const reservation = maxCompletionTokens(undefined, config.max_completion_tokens)
  const origin = config.max_completion_tokens === undefined ? 'the default without max_completion_tokens' : 'max_completion_tokens'
  const sizes: [string, number | undefined][] = [
    [config.burst_tokens === undefined ? 'tokens_per_minute' : 'burst_tokens', perMinute && (config.burst_tokens ?? perMinute)],
    ['tokens_per_day', config.tokens_per_day],
  ]
  for (const [field, size] of sizes) {
    if (size !== undefined && size < reservation) {
      yield `a request without max_tokens reserves ${reservation} tokens (${origin}), more than ${field} (${size}) can ever hold: it is always rejected`
    }
  }
}
