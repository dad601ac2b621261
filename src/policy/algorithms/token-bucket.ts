import { BUCKET, type BucketLimit } from '../../limiter/limit.ts'
import type { TokenBucketConfig } from '../schema/token-bucket.ts'
import type { CompiledRule, PartLimit } from './compiled-rule.ts'
import { parseRate, refillRate } from './rate.ts'
import { compileRequestCost, requestCostSurprises } from './request-cost.ts'

export function compileTokenBucket(config: TokenBucketConfig): CompiledRule {
  return { cost: compileRequestCost(config) }
}

export function tokenBucketLimits(config: TokenBucketConfig): PartLimit[] {
  return [{ part: 'bucket', limit: limitOf(config), reason: 'token_bucket_exceeded' }]
}

export function tokenBucketSurprises(config: TokenBucketConfig): Generator<string> {
  return requestCostSurprises(config, limitOf(config).burst, 'burst')
}

/** By default, the burst is the number that `rate` allows per unit of time, and at least 1. */
function limitOf({ rate, tokens_per_second, burst, when_over }: TokenBucketConfig): BucketLimit {
  const { count, tokensPerMs } = rate === undefined ? { count: 0, tokensPerMs: tokens_per_second! / 1000 } : parseRate(rate)!
  return { kind: BUCKET, tokensPerMs: refillRate(tokensPerMs), burst: burst ?? Math.max(1, count), canOverdraw: when_over === 'charge' }
}
