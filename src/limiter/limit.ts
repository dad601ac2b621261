import { anchoredPeriod, type Calendar, calendarOf, readAnchoredPeriod } from './calendar.ts'

/*
 * The kinds of limits. The numbers are written to state files and sent to Redis, so a number must never be reused for another
 * kind. Numbers from 128 on are records that are not limits (`store/table/table-layout.ts`).
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
   * Set on an override's limit: the size of the rule's own limit. Tokens spent before stay spent, so a raise adds the
   * difference once to each record that was last written before it.
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
  /** Shares of the limit to warn about, in ascending order; undefined if there are none. */
  readonly warnings?: readonly WarningShare[] | undefined
}

/** A share of a window, which is reached when so many tokens are used. */
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
 * request passes, not even one that takes nothing. Other limits let a request pass only if enough is left for it.
 */
export function canOverdraw(limit: Limit): boolean {
  return 'canOverdraw' in limit && limit.canOverdraw === true
}

/** A limit as plain numbers and texts, to be stored or sent, and read elsewhere. */
export interface LimitRecord {
  readonly kind: number
  readonly numbers: readonly number[]
  readonly texts: readonly string[]
}

export function limitRecord(limit: Limit): LimitRecord {
  const { numbers, texts } = (FORMS[limit.kind] as Form<Limit>).write(limit)
  return { kind: limit.kind, numbers, texts }
}

/** Returns undefined if this program cannot read the record: another version wrote it, or the time zone is unknown here. */
export function limitFrom({ kind, numbers, texts }: LimitRecord): Limit | undefined {
  if (!Object.hasOwn(FORMS, kind) || numbers.some((number) => !Number.isFinite(number) || number <= 0)) return undefined
  return FORMS[kind as Limit['kind']].read(numbers, texts)
}

interface Form<L> {
  write(limit: L): Omit<LimitRecord, 'kind'>
  /** The numbers have been checked to be above 0. */
  read(numbers: readonly number[], texts: readonly string[]): L | undefined
}

const FORMS: { readonly [Kind in Limit['kind']]: Form<Extract<Limit, { kind: Kind }>> } = {
  [BUCKET]: {
    write: ({ tokensPerMs, burst }: BucketLimit) => ({ numbers: [tokensPerMs, burst], texts: [] }),
    read: ([tokensPerMs, burst]) => (burst === undefined ? undefined : { kind: BUCKET, tokensPerMs: tokensPerMs!, burst }),
  },
  [WINDOW]: {
    write: ({ tokens, calendar }: WindowLimit) => ({ numbers: [tokens], texts: [anchoredPeriod(calendar), calendar.zone] }),
    read: ([tokens], [text = '', zone]) => {
      const read = readAnchoredPeriod(text)
      if (tokens === undefined || zone === undefined || read === undefined) return undefined
      try {
        return { kind: WINDOW, tokens, calendar: calendarOf(read.period, zone, read.anchor) }
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
  /** With size and rate, a record can be judged without its rule. A store may round both to 24 bits. */
  size: number
  rate: number
}

/** The fields start as NaN, which is not a small integer: V8 then stores any number in them without a change of shape. */
export function newRecord(): CounterRecord {
  return { kind: 0, level: Number.NaN, at: Number.NaN, size: Number.NaN, rate: Number.NaN }
}

/** The wait for a cost that exceeds the limit's size. */
export const NEVER = Number.POSITIVE_INFINITY

/** Returns the worth of a record that ends in `leftMs`. The share spent changes only the last digits: it decides between records that end together. */
export function worthUntilEnd(leftMs: number, spentShare: number): number {
  return leftMs * (1 + Math.min(spentShare, 1) * 2 ** -20)
}
