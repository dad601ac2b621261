import { calendarOf, PERIODS, type Period } from './calendar.ts'
import { BUCKET, type BucketLimit, IN_FLIGHT, type InFlightLimit, type Limit, WINDOW, type WindowLimit } from './limit.ts'

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
