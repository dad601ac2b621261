import { expect, test } from 'vitest'
import { calendarOf, type Period } from '../../limiter/calendar.ts'
import { windowsAround } from './script-format.ts'

const HOUR_MS = 3_600_000

test.for<[Period, string, number]>([
  ['1d', 'UTC', Date.UTC(2026, 0, 15, 12)],
  ['1h', 'Asia/Kathmandu', Date.UTC(2026, 0, 15, 12)],
  // An hour is missing, and comes twice.
  ['1h', 'America/New_York', Date.UTC(2026, 2, 8, 7)],
  ['1d', 'America/New_York', Date.UTC(2026, 10, 1, 12)],
  ['1mo', 'Europe/Berlin', Date.UTC(2026, 2, 29)],
])('the windows of %s in %s around a time follow on each other, as the calendar has them', ([period, zone, wallMs]) => {
  const calendar = calendarOf(period, zone)
  for (const ms of [wallMs, wallMs + HOUR_MS, wallMs - 30 * HOUR_MS, wallMs]) {
    const [previous, previousStartMs, present, startMs, following, followingStartMs, endMs] = windowsAround(calendar, ms)
    expect(calendar.windowAt(ms)).toEqual({ number: present, startMs, endMs: followingStartMs })
    expect(calendar.windowAt(startMs - 1)).toEqual({ number: previous, startMs: previousStartMs, endMs: startMs })
    expect(calendar.windowAt(endMs - 1)).toEqual({ number: following, startMs: followingStartMs, endMs })
  }
})
