import { DAY_MS, type TimeZone, timeZoneOf } from './time-zone.ts'

export const PERIODS = ['1m', '5m', '10m', '15m', '30m', '1h', '2h', '3h', '4h', '6h', '8h', '12h', '1d', '1w', '1mo', '3mo', '1y'] as const

export type Period = (typeof PERIODS)[number]

/** From `startMs` on and before `endMs`, in unix ms. Numbers rise with time, not always by one. */
export interface Window {
  readonly number: number
  readonly startMs: number
  readonly endMs: number
}

const CALENDARS = new Map<string, Calendar>()

/** Returns the same calendar for the same period and zone. The number of calendars is bounded by periods and zones. */
export function calendarOf(period: Period, zone: string): Calendar {
  const key = `${period} ${timeZoneOf(zone).name}`
  const known = CALENDARS.get(key)
  if (known !== undefined) return known
  const calendar = new Calendar(period, zone)
  CALENDARS.set(key, calendar)
  return calendar
}

/**
 * Divides time into windows by the local time of a zone. Every instant is in exactly one window.
 *
 * Minutes and hours are counted from the first instant of the day. The last window of a day of 25 hours is longer; a day of 23 hours ends
 * with a shorter one, or has fewer. Weeks begin on Monday.
 */
export class Calendar {
  readonly period: Period
  readonly zone: string
  readonly #find: (wallMs: number) => Window
  #last: Window = Object.freeze({ number: 0, startMs: 0, endMs: 0 })

  /** An unknown zone throws a RangeError. */
  constructor(period: Period, zone: string) {
    const timeZone = timeZoneOf(zone)
    this.period = period
    this.zone = timeZone.name
    this.#find = finder(period, timeZone)
  }

  /**
   * The window of an instant in the years 1970 to 9999. The last one is cached: a time within it costs two comparisons. Any other time is a
   * search, which takes some tens of microseconds for another day outside UTC.
   */
  windowAt(wallMs: number): Window {
    const last = this.#last
    if (wallMs >= last.startMs && wallMs < last.endMs) return last
    this.#last = this.#find(wallMs)
    return this.#last
  }
}

/** What a period is made of. Days and months are counted from 1970-01-01. */
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

function finder(period: Period, zone: TimeZone): (wallMs: number) => Window {
  const length = LENGTHS[period]
  if ('minutes' in length) {
    const days = calendarOf('1d', zone.name)
    return (wallMs) => partOfDay(days.windowAt(wallMs), length.minutes * 60_000, wallMs)
  }
  if ('days' in length) {
    const firstDayOf = (number: number) => number * length.days + length.firstDay
    return (wallMs) => wholeDays(zone, Math.floor((zone.dayAt(wallMs) - length.firstDay) / length.days), firstDayOf)
  }
  const firstDayOf = (number: number) => dayOfMonthStart(number * length.months)
  return (wallMs) => wholeDays(zone, Math.floor(monthOf(zone.dayAt(wallMs)) / length.months), firstDayOf)
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
