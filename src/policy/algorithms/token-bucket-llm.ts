import { LlmReservation } from '../../costs/llm-costs.ts'
import { DEFAULT_UNSEEN_TOKENS, type UnseenPrompt } from '../../costs/unseen-prompt.ts'
import { BUCKET, type Limit } from '../../limiter/limit.ts'
import type { LlmSettings } from '../../llm/llm-request.ts'
import { DEFAULT_FIRST_TOKENS, firstTokens, maxCompletionTokens, reservedTokens, type TokenWeights } from '../../llm/usage.ts'
import type { TokenBucketLlmConfig } from '../schema/token-bucket-llm.ts'
import type { CompiledRule, PartLimit } from './compiled-rule.ts'
import { refillRate } from './rate.ts'
import { sharesOf, windowLimit } from './request-cost.ts'

export function compileTokenBucketLlm(config: TokenBucketLlmConfig): CompiledRule {
  const llm = llmSettings(config)
  const asksUsage = config.streaming.enabled && config.streaming.ask_usage
  return { cost: new LlmReservation(llm, unseenPrompt(config)), llm, asksUsage, refusesSockets: config.websockets !== 'reserve' }
}

/** A minute gives back soon what a request has used too much of, a day does not. */
function unseenPrompt(config: TokenBucketLlmConfig): UnseenPrompt | undefined {
  const { unseen_prompt_tokens: tokens, tokens_per_minute, tokens_per_day, burst_tokens = tokens_per_minute } = config
  if (tokens !== undefined) return { tokens, of: undefined }
  if (tokens_per_day === undefined) return undefined
  return { tokens: DEFAULT_UNSEEN_TOKENS, of: Math.min(tokens_per_day, burst_tokens ?? tokens_per_day) }
}

function llmSettings(config: TokenBucketLlmConfig): LlmSettings {
  const { streaming } = config
  return Object.freeze({
    maxCompletionTokens: config.max_completion_tokens,
    withoutUsage: config.without_usage,
    weights: config.count && weightsOf(config.count),
    reserve: config.reserve && Object.freeze(config.reserve),
    streaming: Object.freeze({
      enabled: streaming.enabled,
      enforceMidStream: streaming.enforce_mid_stream,
      bufferTokens: streaming.buffer_tokens,
      onLimitExceeded: streaming.on_limit_exceeded,
      includePartialUsage: streaming.include_partial_usage,
    }),
  })
}

/** Weights have at most two decimals, so hundredths are exact. */
function weightsOf({ input, cached_input, cache_write, output }: NonNullable<TokenBucketLlmConfig['count']>): TokenWeights {
  const hundredths = (weight: number): number => Math.round(weight * 100)
  return Object.freeze({
    input: hundredths(input),
    cachedInput: hundredths(cached_input),
    cacheWrite: hundredths(cache_write),
    output: hundredths(output),
  })
}

/** The minute comes first, so it is the reason of a reject even if the day cannot cover the request either. */
export function tokenBucketLlmLimits(config: TokenBucketLlmConfig): PartLimit[] {
  const { tokens_per_minute, tokens_per_day, burst_tokens, warn_at_percent } = config
  const limits: PartLimit[] = []
  if (tokens_per_minute !== undefined) {
    const limit: Limit = { kind: BUCKET, tokensPerMs: refillRate(tokens_per_minute / 60_000), burst: burst_tokens ?? tokens_per_minute }
    limits.push({ part: 'minute', limit, reason: 'tpm_exceeded' })
  }
  if (tokens_per_day !== undefined) {
    const limit = { ...windowLimit(tokens_per_day, { period: '1d', timezone: 'UTC' }), warnings: sharesOf(tokens_per_day, warn_at_percent) }
    limits.push({ part: 'day', limit, reason: 'tpd_exceeded' })
  }
  return limits
}

/** Warns about budgets that can never cover a single request, about tokens that never count, and about a burst without effect. */
export function* tokenBucketLlmSurprises(config: TokenBucketLlmConfig): Generator<string> {
  const perMinute = config.tokens_per_minute
  if (perMinute === undefined && config.burst_tokens !== undefined) yield 'burst_tokens has no effect without tokens_per_minute'
  const weights = config.count && weightsOf(config.count)
  if (weights !== undefined && Math.max(...Object.values(weights)) === 0) yield 'every weight in count is 0: no request costs anything'
  const reservation = reservedTokens(0, maxCompletionTokens(undefined, config.max_completion_tokens), weights)
  const bound = config.max_completion_tokens === undefined ? 'the default without max_completion_tokens' : 'max_completion_tokens'
  const origin = config.count === undefined ? bound : `${bound}, times count.output`
  const sizes: [string, number | undefined][] = [
    [config.burst_tokens === undefined ? 'tokens_per_minute' : 'burst_tokens', perMinute && (config.burst_tokens ?? perMinute)],
    ['tokens_per_day', config.tokens_per_day],
  ]
  const { reserve } = config
  const first = reservedTokens(0, firstTokens(reserve?.first ?? DEFAULT_FIRST_TOKENS, config.max_completion_tokens), weights)
  for (const [field, size] of sizes) {
    if (size === undefined) continue
    if (reserve !== undefined && size < first) {
      yield `a stream reserves ${first} tokens (reserve.first), more than ${field} (${size}) can ever hold: it is always rejected`
    } else if (size < reservation) {
      const which = reserve === undefined ? '' : ' that is no stream'
      const remedy =
        reserve === undefined && config.tokens_per_day !== undefined && size >= first ? `. With reserve: {} a stream reserves ${first}` : ''
      yield `a request without max_tokens${which} reserves ${reservation} tokens (${origin}), more than ${field} (${size}) can ever hold: it is always rejected${remedy}`
    }
  }
}
