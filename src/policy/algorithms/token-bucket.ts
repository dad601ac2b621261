import { z } from 'zod'
import { GIVEN } from '../../costs/given.ts'
import { BUCKET } from '../../limiter/limit.ts'
import { MAX_TOKENS } from '../schema-parts.ts'
import type { CompiledRule } from './compiled-rule.ts'

export const tokenBucketConfig = z.object(
  {
    tokens_per_second: z
      .number({ error: 'a number above 0, in tokens per second (1.6667 is 100 a minute)' })
      .min(1e-9, { error: 'a number above 0 (at least 1e-9)' })
      .max(MAX_TOKENS, { error: `a number up to ${MAX_TOKENS}` })
      .meta({ description: 'Refill rate; each request takes one token.' }),
    burst: z
      .number({ error: 'a number of at least 1' })
      .min(1, { error: 'a number of at least 1, because below 1 no request would ever pass' })
      .max(MAX_TOKENS, { error: `a number up to ${MAX_TOKENS}` })
      .meta({ description: 'Size of the bucket; it starts full.' }),
  },
  { error: 'an object with tokens_per_second and burst' },
)

export function compileTokenBucket({ tokens_per_second, burst }: z.output<typeof tokenBucketConfig>): CompiledRule {
  const limit = { kind: BUCKET, tokensPerMs: tokens_per_second / 1000, burst } as const
  return { cost: GIVEN, limits: [{ part: 'bucket', limit, reason: 'token_bucket_exceeded' }] }
}
