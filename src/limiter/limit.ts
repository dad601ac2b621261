/** Tokens that flow back continuously, up to a size. */
export interface BucketLimit {
  readonly kind: 'bucket'
  readonly tokensPerMs: number
  readonly burst: number
}

/** Tokens for one UTC day, all back at midnight. */
interface DayLimit {
  readonly kind: 'day'
  readonly tokensPerDay: number
}

export type Limit = BucketLimit | DayLimit

/** The most tokens that a limit can ever hand out at one moment. */
export function sizeOf(limit: Limit): number {
  return limit.kind === 'bucket' ? limit.burst : limit.tokensPerDay
}
