import type { Calendar } from './calendar.ts'

/*
 * The kinds of limits. The numbers are written to state files and sent to Redis, so that a number is never reused for another
 * kind. Those from 128 on are records that are not limits (`store/record-kinds.ts`).
 */
export const BUCKET = 1
export const WINDOW = 2
export const IN_FLIGHT = 3

/** Tokens that are refilled continuously, up to the burst. */
export interface BucketLimit {
  readonly kind: typeof BUCKET
  readonly tokensPerMs: number
  readonly burst: number
  /** See `canOverdraw`. */
  readonly canOverdraw?: boolean
  /**
   * Of an override's limit: the size of the rule's own. What was spent before stays spent of this one, so that a raise adds
   * the difference to each record that was last written before it, once.
   */
  readonly raisedFrom?: number
}

/** Tokens for each window of a calendar. */
export interface WindowLimit {
  readonly kind: typeof WINDOW
  readonly tokens: number
  readonly calendar: Calendar
  /** See `canOverdraw`. */
  readonly canOverdraw?: boolean
  /** Shares of it to warn of, in ascending order; undefined: none. */
  readonly warnings?: readonly WarningShare[] | undefined
}

/** Reached when so many tokens of a window are used. */
export interface WarningShare {
  readonly percent: number
  readonly tokens: number
}

/** Requests in flight: each is a hold, which counts for eight slices of time unless it is released or renewed. */
export interface InFlightLimit {
  readonly kind: typeof IN_FLIGHT
  readonly max: number
  readonly sliceMs: number
}

export type Limit = BucketLimit | WindowLimit | InFlightLimit

/**
 * Whether a request passes while anything is left, whatever it takes, so that the level may fall below zero; while nothing is left, no
 * request passes, not even one that takes nothing. Otherwise a request passes where enough is left for it.
 */
export function canOverdraw(limit: Limit): boolean {
  return 'canOverdraw' in limit && limit.canOverdraw === true
}
