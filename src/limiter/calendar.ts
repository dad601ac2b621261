export const PERIODS = ['1m', '5m', '10m', '15m', '30m', '1h', '2h', '3h', '4h', '6h', '8h', '12h', '1d', '1w', '1mo', '3mo', '1y'] as const

export type Period = (typeof PERIODS)[number]

/** A window from `startMs` (inclusive) to `endMs` (exclusive), in Unix milliseconds. Numbers rise with time, but not always by one. */
export interface Window {
  readonly number: number
  readonly startMs: number
  readonly endMs: number
}

const CALENDARS = new Map<string, Calendar>()

/** Returns the same calendar for the same period, zone and anchor. The number of calendars is bounded by those. */
export function calendarOf(period: Period, zone: string, anchor = 1): Calendar {
  const key = `${anchoredPeriod({ period, anchor })} ${timeZoneOf(zone).name}`
  const known = CALENDARS.get(key)
  if (known !== undefined) return known
  const calendar = new Calendar(period, zone, anchor)
  CALENDARS.set(key, calendar)
  return calendar
}

/**
 * Divides time into windows by the local time of a zone. Every instant is in exactly one window.
 *
 * Minutes and hours are counted from the first instant of the day. The last window of a day of 25 hours is longer; a day of 23 hours ends
 * with a shorter window, or has fewer windows. Weeks begin on Monday and months on their first day, unless the anchor says otherwise.
 */
export class Calendar {
  readonly period: Period
  readonly zone: string
  /** The day on which a week (1 is Monday) or a month begins; 1 for all other periods. */
  readonly anchor: number
  readonly #find: (wallMs: number) => Window
  #last: Window = Object.freeze({ number: 0, startMs: 0, endMs: 0 })

  /** Throws a RangeError if the zone is unknown. */
  constructor(period: Period, zone: string, anchor = 1) {
    const timeZone = timeZoneOf(zone)
    this.period = period
    this.zone = timeZone.name
    this.anchor = anchor
    this.#find = finder(period, timeZone, anchor)
  }

  /**
   * Returns the window of an instant in the years 1970 to 9999. The last window is cached: a time within it costs two comparisons. Any other
   * time needs a search, which takes some tens of microseconds for another day outside UTC.
   */
  windowAt(wallMs: number): Window {
    const last = this.#last
    if (wallMs >= last.startMs && wallMs < last.endMs) return last
    this.#last = this.#find(wallMs)
    return this.#last
  }
}

/** The length of a period. Days and months are counted from 1970-01-01. */
type Length = { readonly minutes: number } | { readonly days: number; readonly firstDay: number } | { readonly months: number }

const LENGTHS: Readonly<Record<Period, Length>> = {
  '1m': { minutes: 1 },
  '5m': { minutes: 5 },
  '10m': { minutes: 10 },
  '15m': { minutes: 15 },
  '30m': { minutes: 30 },
  '1h': { minutes: 60 },
  '2h': { minutes: 120 },
  '3h': { minutes: 180 },
  '4h': { minutes: 240 },
  '6h': { minutes: 360 },
  '8h': { minutes: 480 },
  '12h': { minutes: 720 },
  '1d': { days: 1, firstDay: 0 },
  '1w': { days: 7, firstDay: -3 }, // 1970-01-01 was a Thursday, the Monday before it 1969-12-29
  '1mo': { months: 1 },
  '3mo': { months: 3 },
  '1y': { months: 12 },
}

/**
 * Returns a calendar's period and anchor as one text, such as `1mo@15`. It is part of a counter's identity, and of records that other programs read: those
 * that do not know anchors do not know this period either, rather than take the calendar for another.
 */
export function anchoredPeriod({ period, anchor }: Pick<Calendar, 'period' | 'anchor'>): string {
  return anchor === 1 ? period : `${period}@${anchor}`
}

/** Reads what `anchoredPeriod` returned; undefined if it is not one. */
export function readAnchoredPeriod(text: string): { readonly period: Period; readonly anchor: number } | undefined {
  const [name, day, ...rest] = text.split('@')
  const period = PERIODS.find((each) => each === name)
  if (period === undefined || rest.length > 0) return undefined
  if (day === undefined) return { period, anchor: 1 }
  const anchor = /^[1-9]\d?$/.test(day) ? Number(day) : 0
  return anchor > 1 && anchor <= maxAnchor(period) ? { period, anchor } : undefined
}

/** The last day on which a period can be made to begin: every month has a day 28. */
function maxAnchor(period: Period): number {
  return period === '1w' ? 7 : period === '1mo' ? 28 : 1
}

/** Returns how long a period usually is; undefined if it has no usual length, because months differ. A change of the clock makes a day longer or shorter. */
export function periodSeconds(period: Period): number | undefined {
  const length = LENGTHS[period]
  if ('minutes' in length) return length.minutes * 60
  return 'days' in length ? length.days * 86_400 : undefined
}

function finder(period: Period, zone: TimeZone, anchor: number): (wallMs: number) => Window {
  const daysLater = anchor - 1
  const length = LENGTHS[period]
  if ('minutes' in length) {
    const days = calendarOf('1d', zone.name)
    return (wallMs) => partOfDay(days.windowAt(wallMs), length.minutes * 60_000, wallMs)
  }
  if ('days' in length) {
    const firstDay = length.firstDay + daysLater
    const firstDayOf = (number: number) => number * length.days + firstDay
    return (wallMs) => wholeDays(zone, Math.floor((zone.dayAt(wallMs) - firstDay) / length.days), firstDayOf)
  }
  const firstDayOf = (number: number) => dayOfMonthStart(number * length.months) + daysLater
  return (wallMs) => wholeDays(zone, Math.floor(monthOf(zone.dayAt(wallMs) - daysLater) / length.months), firstDayOf)
}

function partOfDay(day: Window, lengthMs: number, wallMs: number): Window {
  const slots = DAY_MS / lengthMs
  const slot = Math.min(Math.floor((wallMs - day.startMs) / lengthMs), slots - 1)
  const startMs = day.startMs + slot * lengthMs
  const endMs = slot === slots - 1 ? day.endMs : Math.min(startMs + lengthMs, day.endMs)
  return Object.freeze({ number: day.number * slots + slot, startMs, endMs })
}

function wholeDays(zone: TimeZone, number: number, firstDayOf: (number: number) => number): Window {
  return Object.freeze({ number, startMs: zone.startMs(firstDayOf(number)), endMs: zone.startMs(firstDayOf(number + 1)) })
}

function monthOf(day: number): number {
  const date = new Date(day * DAY_MS)
  return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth()
}

function dayOfMonthStart(month: number): number {
  return Date.UTC(1970, month) / DAY_MS
}

/** The civil days of a time zone, counted from 1970-01-01. A day that is skipped has no length, and no day begins twice. */
interface TimeZone {
  readonly name: string
  /** Returns the last day that has begun. */
  dayAt(wallMs: number): number
  /** Returns the first instant of a day, which is not 00:00 where clocks go forward over midnight. */
  startMs(day: number): number
}

export const DAY_MS = 86_400_000

const UTC: TimeZone = {
  name: 'UTC',
  dayAt: (wallMs) => Math.floor(wallMs / DAY_MS),
  startMs: (day) => day * DAY_MS,
}

/** All IANA names of UTC and GMT. Whether Intl resolves them to one name depends on its version. */
const UTC_NAMES = /^(etc\/)?(utc|uct|universal|zulu|greenwich|gmt([+-]?0)?)$/i

const ZONES = new Map<string, TimeZone>([['UTC', UTC]])

/**
 * Returns the zone of an IANA name in any case, and the same object for the same name. Throws a RangeError if the name is unknown.
 * Other spellings take no more memory: there are at most two objects for each name that Intl knows.
 */
export function timeZoneOf(name: string): TimeZone {
  const known = ZONES.get(UTC_NAMES.test(name) ? 'UTC' : name)
  if (known !== undefined) return known
  const format = clockFormat(name)
  const canonical = canonicalName(name, format.resolvedOptions().timeZone)
  const zone = ZONES.get(canonical) ?? new IntlTimeZone(canonical, format)
  ZONES.set(canonical, zone)
  return zone
}

/**
 * Names are part of a counter's identity. Some Node versions resolve Asia/Kolkata to Asia/Calcutta and others do not, so a name in
 * IANA's usual spelling stays as it is. Only other spellings are replaced by Intl's name.
 */
function canonicalName(written: string, resolved: string): string {
  return /^[A-Z][a-z]+([/_-][A-Z][a-z]+)*$/.test(written) ? written : resolved
}

/** Wider than any zone's offset since 1970: -12 h to +14 h. */
const WIDEST_OFFSET_MS = 15 * 3_600_000

/**
 * Gets offsets from Intl's local times. No zone has changed its offset twice within a week since 1970, so there is at most one
 * change around a midnight.
 */
class IntlTimeZone implements TimeZone {
  readonly name: string
  readonly #format: Intl.DateTimeFormat

  constructor(name: string, format: Intl.DateTimeFormat) {
    this.name = name
    this.#format = format
  }

  dayAt(wallMs: number): number {
    const shown = Math.floor(this.#shownMs(wallMs) / DAY_MS)
    // Clocks that go back shortly after midnight show the previous day again (America/St_Johns until 2011, at 00:01).
    return this.startMs(shown + 1) <= wallMs ? shown + 1 : shown
  }

  /** Calls Intl twice on most days, at most four times around a change, and up to 17 times more where clocks leap over midnight. */
  startMs(day: number): number {
    const midnightMs = day * DAY_MS
    const offsetBefore = this.#offsetMs(midnightMs - WIDEST_OFFSET_MS)
    const offsetAfter = this.#offsetMs(midnightMs + WIDEST_OFFSET_MS)
    const byOldOffset = midnightMs - offsetBefore
    if (offsetBefore === offsetAfter || this.#offsetMs(byOldOffset) === offsetBefore) return byOldOffset
    const byNewOffset = midnightMs - offsetAfter
    if (this.#offsetMs(byNewOffset) === offsetAfter) return byNewOffset
    return this.#changeMs(byNewOffset, byOldOffset, offsetAfter)
  }

  /** Returns the first instant with the new offset, after `beforeMs` and not after `afterMs`, both whole seconds. A day takes 17 halvings. */
  #changeMs(beforeMs: number, afterMs: number, newOffsetMs: number): number {
    let lowMs = beforeMs
    let highMs = afterMs
    while (highMs - lowMs > 1000) {
      const middleMs = lowMs + Math.floor((highMs - lowMs) / 2000) * 1000
      if (this.#offsetMs(middleMs) === newOffsetMs) highMs = middleMs
      else lowMs = middleMs
    }
    return highMs
  }

  /** `wallMs` must be a whole second. */
  #offsetMs(wallMs: number): number {
    return this.#shownMs(wallMs) - wallMs
  }

  /** Returns the local date and time, to the second, read as UTC. */
  #shownMs(wallMs: number): number {
    // The text reads month/day/year, hour:minute:second.
    const [month, day, year, hour, minute, second] = this.#format.format(wallMs).match(/\d+/g)!.map(Number)
    return Date.UTC(year!, month! - 1, day, hour, minute, second)
  }
}

/** The locale is fixed, because the format must not depend on the host's settings. */
function clockFormat(timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
}
