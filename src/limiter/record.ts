/**
 * A counter as a store keeps it: which kind it is, and four numbers whose meaning is the kind's. Algorithms read and change it
 * in place, so one object can serve many counters.
 */
export interface CounterRecord {
  kind: number
  level: number
  at: number
  /** Size and rate are the limit's, for whoever must judge a record without its rule; a store may keep them in 24 bits. */
  size: number
  rate: number
}

/** The fields begin as NaN, which is no small integer: V8 then makes room for any number in each of them from the start. */
export function newRecord(): CounterRecord {
  return { kind: 0, level: Number.NaN, at: Number.NaN, size: Number.NaN, rate: Number.NaN }
}

/** The wait for a cost that a limit can never cover, however long one waits. */
export const NEVER = Number.POSITIVE_INFINITY
