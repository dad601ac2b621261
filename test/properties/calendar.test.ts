import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Calendar, PERIODS, type Period } from '../../src/limiter/calendar.ts'
import { anyShare } from '../support/random/numbers.ts'
import { runs } from '../support/run/property-runs.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/** Instants at which clocks were changed, or a day was left out. */
const CHANGES: readonly (readonly [zone: string, time: string])[] = [
  ['Europe/Berlin', '2026-03-29T01:00Z'],
  ['Europe/Berlin', '2026-10-25T01:00Z'],
  ['America/New_York', '2026-03-08T07:00Z'],
  ['America/New_York', '2026-11-01T06:00Z'],
  ['America/Sao_Paulo', '2018-11-04T03:00Z'],
  ['America/Sao_Paulo', '2018-02-18T02:00Z'],
  ['Africa/Cairo', '2026-04-23T22:00Z'],
  ['Africa/Cairo', '2026-10-29T21:00Z'],
  ['Africa/Monrovia', '1972-01-07T00:44:30Z'],
  ['America/St_Johns', '2010-11-07T02:31Z'],
  ['America/St_Johns', '2011-03-13T03:31Z'],
  ['Australia/Lord_Howe', '2026-04-04T15:00Z'],
  ['Australia/Lord_Howe', '2026-10-03T15:30Z'],
  ['Asia/Kathmandu', '1985-12-31T18:30Z'],
  ['Pacific/Apia', '2011-12-30T10:00Z'],
  ['Pacific/Kiritimati', '1994-12-31T10:00Z'],
  ['Pacific/Kwajalein', '1993-08-21T12:00Z'],
]

const place = fc.oneof(
  fc.tuple(fc.constantFrom('UTC', ...Intl.supportedValuesOf('timeZone')), fc.integer({ min: 0, max: Date.UTC(2040, 0) })),
  fc.tuple(fc.constantFrom(...new Set(CHANGES.map(([zone]) => zone))), fc.integer({ min: 0, max: Date.UTC(9999, 11, 31) })),
  fc
    .tuple(fc.constantFrom(...CHANGES), fc.integer({ min: -26 * HOUR_MS, max: 26 * HOUR_MS }))
    .map(([[zone, time], distanceMs]): [string, number] => [zone, Date.parse(time) + distanceMs]),
)

const anyPeriod = fc.constantFrom(...PERIODS)

describe('the windows of any period and zone', () => {
  test('contain the instant that was asked for, touch their neighbours, and have numbers that rise', () => {
    fc.assert(
      fc.property(anyPeriod, place, (period, [zone, wallMs]) => {
        const calendar = new Calendar(period, zone)
        const window = calendar.windowAt(wallMs)
        expect(window.startMs).toBeLessThanOrEqual(wallMs)
        expect(window.endMs).toBeGreaterThan(wallMs)
        const next = calendar.windowAt(window.endMs)
        expect(next.startMs).toBe(window.endMs)
        expect(next.number).toBeGreaterThan(window.number)
        const previous = calendar.windowAt(window.startMs - 1)
        expect(previous.endMs).toBe(window.startMs)
        expect(previous.number).toBeLessThan(window.number)
      }),
      { numRuns: runs(80) },
    )
  })

  test('are the same ones, whichever of their instants is asked for and whatever was asked for before', () => {
    fc.assert(
      fc.property(anyPeriod, place, fc.array(anyShare), (period, [zone, wallMs], shares) => {
        const calendar = new Calendar(period, zone)
        const window = calendar.windowAt(wallMs)
        for (const share of [0, ...shares]) {
          calendar.windowAt(window.endMs)
          const instantMs = window.startMs + Math.floor(share * (window.endMs - 1 - window.startMs))
          expect(calendar.windowAt(instantMs)).toEqual(window)
        }
      }),
      { numRuns: runs(8) },
    )
  })
})

describe('clocks that are looked at minute by minute', () => {
  const partsOfDays = PERIODS.filter((period) => /[mh]$/.test(period))

  test('begin and end days where the calendar does, and windows within them by its definition', () => {
    fc.assert(
      fc.property(fc.constantFrom('1d' as const, ...partsOfDays), place, (period, [zone, wallMs]) => {
        const days = daysBegun(zone, wallMs - 27 * HOUR_MS, wallMs + 27 * HOUR_MS)
        const at = days.findLastIndex(({ startMs }) => startMs <= wallMs)
        const [day, nextDay] = [days[at]!, days[at + 1]!]
        expect(new Calendar(period, zone).windowAt(wallMs)).toEqual(
          period === '1d'
            ? { number: day.number, startMs: day.startMs, endMs: nextDay.startMs }
            : partOfDay(period, day.number, day.startMs, nextDay.startMs, wallMs),
        )
      }),
      { numRuns: runs(4) },
    )
  })

  test('change to another week, month, quarter or year where the calendar does, and nowhere between', () => {
    fc.assert(
      fc.property(fc.constantFrom('1w' as const, '1mo' as const, '3mo' as const, '1y' as const), place, (period, [zone, wallMs]) => {
        const { startMs, endMs } = new Calendar(period, zone).windowAt(wallMs)
        const name = nameOf(period, lastDayBegun(zone, wallMs))
        expect(nameOf(period, lastDayBegun(zone, startMs - 1))).not.toBe(name)
        expect(nameOf(period, lastDayBegun(zone, startMs))).toBe(name)
        expect(nameOf(period, lastDayBegun(zone, endMs - 1))).toBe(name)
        expect(nameOf(period, lastDayBegun(zone, endMs))).not.toBe(name)
      }),
      { numRuns: runs(3) },
    )
  })
})

interface Day {
  readonly number: number
  readonly startMs: number
}

/** The days that begin within a stretch of time: whenever the clocks show a date that is later than all before. */
function daysBegun(zone: string, fromMs: number, toMs: number): Day[] {
  const days: Day[] = []
  let latest = dayShown(zone, fromMs)
  for (let ms = Math.ceil(fromMs / MINUTE_MS) * MINUTE_MS; ms <= toMs; ms += MINUTE_MS) {
    if (dayShown(zone, ms) <= latest) continue
    let startMs = ms
    while (dayShown(zone, startMs - 1000) > latest) startMs -= 1000
    latest = dayShown(zone, startMs)
    days.push({ number: latest, startMs })
  }
  return days
}

/** Clocks that went back may show the day before again, for less than two hours. */
function lastDayBegun(zone: string, wallMs: number): number {
  let latest = dayShown(zone, wallMs)
  for (let ms = wallMs; ms > wallMs - 2 * HOUR_MS; ms -= MINUTE_MS) latest = Math.max(latest, dayShown(zone, ms))
  return latest
}

const FORMATS = new Map<string, Intl.DateTimeFormat>()

/** The date on a calendar on the wall, as days since 1970. */
function dayShown(zone: string, ms: number): number {
  const format = FORMATS.get(zone) ?? new Intl.DateTimeFormat('en', { timeZone: zone, year: 'numeric', month: 'numeric', day: 'numeric' })
  FORMATS.set(zone, format)
  const parts = format.formatToParts(ms)
  const part = (type: string) => Number(parts.find((one) => one.type === type)!.value)
  return Date.UTC(part('year'), part('month') - 1, part('day')) / DAY_MS
}

/** Window by window from the start of the day, the last one up to its end. */
function partOfDay(period: Period, dayNumber: number, dayStartMs: number, dayEndMs: number, wallMs: number) {
  const lengthMs = Number.parseInt(period, 10) * (period.endsWith('h') ? HOUR_MS : MINUTE_MS)
  const slots = DAY_MS / lengthMs
  let slot = 0
  while (slot < slots - 1 && dayStartMs + (slot + 1) * lengthMs <= wallMs) slot++
  const plainEndMs = dayStartMs + (slot + 1) * lengthMs
  const isStretched = slot === slots - 1 && dayEndMs > plainEndMs
  return {
    number: dayNumber * slots + slot,
    startMs: dayStartMs + slot * lengthMs,
    endMs: isStretched || dayEndMs < plainEndMs ? dayEndMs : plainEndMs,
  }
}

function nameOf(period: '1w' | '1mo' | '3mo' | '1y', day: number): string {
  const date = new Date(day * DAY_MS)
  if (period === '1y') return `${date.getUTCFullYear()}`
  if (period === '1mo') return date.toISOString().slice(0, -17)
  if (period === '3mo') return `${date.getUTCFullYear()}-Q${Math.floor(date.getUTCMonth() / 3)}`
  while (date.getUTCDay() !== 1) date.setUTCDate(date.getUTCDate() - 1)
  return date.toISOString()
}
