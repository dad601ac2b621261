/**
 * A counter as a store keeps it: its kind, and four numbers whose meaning depends on the kind. Algorithms change it in place, so one
 * object can be used for many counters.
 */
export interface CounterRecord {
  kind: number
  level: number
  at: number
  /** Size and rate are the limit's, to judge a record without its rule; a store may round them to 24 bits. */
  size: number
  rate: number
}

/** The fields start as NaN, which is not a small integer: V8 then stores any number in them without a change of shape. */
export function newRecord(): CounterRecord {
  return { kind: 0, level: Number.NaN, at: Number.NaN, size: Number.NaN, rate: Number.NaN }
}

/** The wait for a cost that exceeds the limit's size. */
export const NEVER = Number.POSITIVE_INFINITY

/** What a record is worth that ends in so much time. The share spent is in the last digits: it decides between records that end together. */
export function worthUntilEnd(leftMs: number, spentShare: number): number {
  return leftMs * (1 + Math.min(spentShare, 1) * 2 ** -20)
}
