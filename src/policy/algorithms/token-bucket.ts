import { z } from 'zod'
import { BUCKET, type BucketLimit } from '../../limiter/limit.ts'
import { MAX_TOKENS } from '../schema-parts.ts'
import type { CompiledRule } from './compiled-rule.ts'
import { parseRate, rateText } from './rate.ts'
import { compileRequestCost, requestCostConfig, requestCostSurprises } from './request-cost.ts'

const BURST = 'a number of at least 1'

export const tokenBucketConfig = z
  .object(
    {
      rate: rateText.optional().meta({ description: 'Refill rate: a number per second, minute, hour or day, such as 100/minute.' }),
      tokens_per_second: z
        .number({ error: 'a number above 0, in tokens per second' })
        .min(1e-9, { error: 'a number above 0 (at least 1e-9)' })
        .max(MAX_TOKENS, { error: `a number up to ${MAX_TOKENS}` })
        .optional()
        .meta({ description: 'Refill rate in tokens per second, in place of rate.' }),
      burst: z
        .number({ error: BURST })
        .min(1, { error: `${BURST}, because below 1 no request would ever pass` })
        .max(MAX_TOKENS, { error: `a number up to ${MAX_TOKENS}` })
        .optional()
        .meta({ description: 'Size of the bucket; it starts full. With rate, its number by default, and at least 1.' }),
      ...requestCostConfig,
    },
    { error: 'an object with rate, or with tokens_per_second and burst' },
  )
  .refine(({ rate, tokens_per_second }) => rate === undefined || tokens_per_second === undefined, {
    ...alsoWithOtherErrors('rate'),
    error: 'either rate or tokens_per_second, not both',
  })
  .refine(({ rate, tokens_per_second }) => rate !== undefined || tokens_per_second !== undefined, {
    ...alsoWithOtherErrors('tokens_per_second'),
    error: 'a number of tokens per second, or rate (for 100 requests a minute write rate: 100/minute)',
  })
  .refine(({ rate, burst }) => rate !== undefined || burst !== undefined, { ...alsoWithOtherErrors('burst'), error: BURST })
  .meta({ oneOf: [{ required: ['rate'] }, { required: ['tokens_per_second', 'burst'] }] })

type Config = z.output<typeof tokenBucketConfig>

export function compileTokenBucket(config: Config): CompiledRule {
  return { cost: compileRequestCost(config), limits: [{ part: 'bucket', limit: limitOf(config), reason: 'token_bucket_exceeded' }] }
}

export function tokenBucketSurprises(config: Config): Generator<string> {
  return requestCostSurprises(config, limitOf(config).burst, 'burst')
}

/** By default, a burst is what one unit of the rate brings. */
function limitOf({ rate, tokens_per_second, burst, when_over }: Config): BucketLimit {
  const { count, tokensPerMs } = rate === undefined ? { count: 0, tokensPerMs: tokens_per_second! / 1000 } : parseRate(rate)!
  return { kind: BUCKET, tokensPerMs, burst: burst ?? Math.max(1, count), canOverdraw: when_over === 'charge' }
}

/** Reports the problem even where another field is invalid, so that all problems are named at once. */
function alsoWithOtherErrors(field: string) {
  return { path: [field], when: ({ value }: { value: unknown }) => typeof value === 'object' && value !== null && !Array.isArray(value) }
}
