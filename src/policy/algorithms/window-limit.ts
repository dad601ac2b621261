import { calendarOf, type Period } from '../../limiter/calendar.ts'
import { WINDOW, type WindowLimit } from '../../limiter/limit.ts'

export function windowLimit(tokens: number, period: Period, timezone: string, canOverdraw = false): WindowLimit {
  return { kind: WINDOW, tokens, calendar: calendarOf(period, timezone), canOverdraw }
}

/** What tells the counters of one calendar from those of another: the same for all spellings of a zone. */
export function windowIdentity({ calendar }: WindowLimit): readonly string[] {
  return [calendar.period, calendar.zone]
}
