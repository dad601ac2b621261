import { type Calendar, calendarOf, PERIODS, type Period } from './calendar.ts'

/*
 * The kinds of limits. The numbers are written to state files and sent to Redis, so that a number is never reused for another
 * kind. Those from 128 on are records that are not limits (`store/table/table-layout.ts`).
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

/** A limit as plain numbers and texts, for those who write it down and read it elsewhere. */
export interface LimitRecord {
  readonly kind: number
  readonly numbers: readonly number[]
  readonly texts: readonly string[]
}

export function limitRecord(limit: Limit): LimitRecord {
  const { numbers, texts } = (FORMS[limit.kind] as Form<Limit>).write(limit)
  return { kind: limit.kind, numbers, texts }
}

/** Undefined where this program cannot read it: another one wrote it, or this one knows no such zone. */
export function limitFrom({ kind, numbers, texts }: LimitRecord): Limit | undefined {
  if (!Object.hasOwn(FORMS, kind) || numbers.some((number) => !Number.isFinite(number) || number <= 0)) return undefined
  return FORMS[kind as Limit['kind']].read(numbers, texts)
}

interface Form<L> {
  write(limit: L): Omit<LimitRecord, 'kind'>
  /** All numbers are above 0. */
  read(numbers: readonly number[], texts: readonly string[]): L | undefined
}

const FORMS: { readonly [Kind in Limit['kind']]: Form<Extract<Limit, { kind: Kind }>> } = {
  [BUCKET]: {
    write: ({ tokensPerMs, burst }: BucketLimit) => ({ numbers: [tokensPerMs, burst], texts: [] }),
    read: ([tokensPerMs, burst]) => (burst === undefined ? undefined : { kind: BUCKET, tokensPerMs: tokensPerMs!, burst }),
  },
  [WINDOW]: {
    write: ({ tokens, calendar }: WindowLimit) => ({ numbers: [tokens], texts: [calendar.period, calendar.zone] }),
    read: ([tokens], [period, zone]) => {
      if (tokens === undefined || zone === undefined || !PERIODS.includes(period as Period)) return undefined
      try {
        return { kind: WINDOW, tokens, calendar: calendarOf(period as Period, zone) }
      } catch {
        return undefined
      }
    },
  },
  [IN_FLIGHT]: {
    write: ({ max, sliceMs }: InFlightLimit) => ({ numbers: [max, sliceMs], texts: [] }),
    read: ([max, sliceMs]) => (sliceMs === undefined ? undefined : { kind: IN_FLIGHT, max: max!, sliceMs }),
  },
}

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
