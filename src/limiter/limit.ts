import type { Calendar } from './calendar.ts'

/*
 * The kinds of limits. The numbers are written to state files and sent to Redis: one that was ever used stands for the same
 * kind for good. From 128 on they belong to records that are no limits (`store/record-kinds.ts`).
 */
export const BUCKET = 1
export const WINDOW = 2

/** Tokens that flow back continuously, up to a size. */
export interface BucketLimit {
  readonly kind: typeof BUCKET
  readonly tokensPerMs: number
  readonly burst: number
}

/** Tokens for one window of a calendar, all back when it ends. */
export interface WindowLimit {
  readonly kind: typeof WINDOW
  readonly tokens: number
  readonly calendar: Calendar
}

export type Limit = BucketLimit | WindowLimit
