import { describe, expect, test } from 'vitest'
import { anchoredPeriod, Calendar, calendarOf, PERIODS, type Period, readAnchoredPeriod, type Window } from './calendar.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

function windowAt(period: Period, zone: string, time: string): Window {
  return new Calendar(period, zone).windowAt(Date.parse(time))
}

/** Start and end of a window as UTC texts. */
function bounds(period: Period, zone: string, time: string): [string, string] {
  const { startMs, endMs } = windowAt(period, zone, time)
  return [textOf(startMs), textOf(endMs)]
}

/** How many hours each window of a stretch of time has. */
function hoursOf(period: Period, zone: string, from: string, to: string): number[] {
  const calendar = new Calendar(period, zone)
  const hours: number[] = []
  for (let ms = Date.parse(from); ms < Date.parse(to); ) {
    const window = calendar.windowAt(ms)
    expect(window.startMs).toBe(ms)
    hours.push((window.endMs - window.startMs) / HOUR_MS)
    ms = window.endMs
  }
  return hours
}

function textOf(ms: number): string {
  return new Date(ms).toISOString().replace(':00.000Z', 'Z')
}

function dayNumber(date: string): number {
  return Date.parse(`${date}T00:00Z`) / DAY_MS
}

describe('in UTC', () => {
  const noonMs = Date.parse('2026-11-18T12:34:56.789Z')

  test('a day has the number that Redis keys of earlier versions have', () => {
    expect(new Calendar('1d', 'UTC').windowAt(noonMs).number).toBe(Math.floor(noonMs / DAY_MS))
    expect(bounds('1d', 'UTC', '2026-11-18T23:59:59.999Z')).toEqual(['2026-11-18T00:00Z', '2026-11-19T00:00Z'])
  })

  test.each([
    ['1m', '2026-11-18T12:34Z', '2026-11-18T12:35Z'],
    ['5m', '2026-11-18T12:30Z', '2026-11-18T12:35Z'],
    ['10m', '2026-11-18T12:30Z', '2026-11-18T12:40Z'],
    ['15m', '2026-11-18T12:30Z', '2026-11-18T12:45Z'],
    ['30m', '2026-11-18T12:30Z', '2026-11-18T13:00Z'],
    ['1h', '2026-11-18T12:00Z', '2026-11-18T13:00Z'],
    ['2h', '2026-11-18T12:00Z', '2026-11-18T14:00Z'],
    ['3h', '2026-11-18T12:00Z', '2026-11-18T15:00Z'],
    ['4h', '2026-11-18T12:00Z', '2026-11-18T16:00Z'],
    ['6h', '2026-11-18T12:00Z', '2026-11-18T18:00Z'],
    ['8h', '2026-11-18T08:00Z', '2026-11-18T16:00Z'],
    ['12h', '2026-11-18T12:00Z', '2026-11-19T00:00Z'],
    ['1d', '2026-11-18T00:00Z', '2026-11-19T00:00Z'],
    ['1w', '2026-11-16T00:00Z', '2026-11-23T00:00Z'],
    ['1mo', '2026-11-01T00:00Z', '2026-12-01T00:00Z'],
    ['3mo', '2026-10-01T00:00Z', '2027-01-01T00:00Z'],
    ['1y', '2026-01-01T00:00Z', '2027-01-01T00:00Z'],
  ] as const)('the %s around noon of a Wednesday is from %s to %s', (period, start, end) => {
    expect(bounds(period, 'UTC', '2026-11-18T12:34:56.789Z')).toEqual([start, end])
  })

  test('a window of minutes has the number of its day times the windows of a day, plus its place in it', () => {
    expect(new Calendar('5m', 'UTC').windowAt(noonMs).number).toBe(Math.floor(noonMs / (5 * MINUTE_MS)))
    expect(new Calendar('8h', 'UTC').windowAt(noonMs).number).toBe(Math.floor(noonMs / (8 * HOUR_MS)))
  })

  test('weeks, months, quarters and years are counted from the one in which 1970 began', () => {
    for (const period of ['1w', '1mo', '3mo', '1y'] as const) expect(windowAt(period, 'UTC', '1970-01-01T00:00Z').number).toBe(0)
    expect(windowAt('1w', 'UTC', '1970-01-05T00:00Z').number).toBe(1)
    expect(windowAt('1mo', 'UTC', '1971-02-01T00:00Z').number).toBe(13)
    expect(windowAt('3mo', 'UTC', '1971-04-01T00:00Z').number).toBe(5)
    expect(windowAt('1y', 'UTC', '2026-07-01T00:00Z').number).toBe(56)
  })

  test('the first and the last instant of 1970 to 9999 have windows', () => {
    for (const period of PERIODS) {
      expect(windowAt(period, 'UTC', '1970-01-01T00:00Z').endMs).toBeGreaterThan(0)
      expect(windowAt(period, 'UTC', '9999-12-31T23:59:59.999Z').endMs).toBeGreaterThanOrEqual(Date.UTC(10_000, 0))
    }
  })
})

describe('the civil calendar', () => {
  test('has a leap day in 2028 and 2000, and none in 2100', () => {
    expect(bounds('1mo', 'UTC', '2028-02-29T12:00Z')).toEqual(['2028-02-01T00:00Z', '2028-03-01T00:00Z'])
    expect(bounds('1d', 'UTC', '2028-02-29T12:00Z')).toEqual(['2028-02-29T00:00Z', '2028-03-01T00:00Z'])
    expect(hoursOf('1mo', 'UTC', '2000-02-01T00:00Z', '2000-03-01T00:00Z')).toEqual([29 * 24])
    expect(hoursOf('1mo', 'UTC', '2100-02-01T00:00Z', '2100-03-01T00:00Z')).toEqual([28 * 24])
  })

  test('has weeks from Monday on, across the end of a year', () => {
    expect(bounds('1w', 'UTC', '2027-01-01T12:00Z')).toEqual(['2026-12-28T00:00Z', '2027-01-04T00:00Z'])
    expect(bounds('1w', 'Europe/Berlin', '2026-12-27T23:00Z')).toEqual(['2026-12-27T23:00Z', '2027-01-03T23:00Z'])
    expect(bounds('1w', 'Europe/Berlin', '2026-12-27T22:59Z')[1]).toBe('2026-12-27T23:00Z')
  })

  test('has quarters that begin and end in different offsets', () => {
    expect(bounds('3mo', 'America/New_York', '2026-02-14T12:00Z')).toEqual(['2026-01-01T05:00Z', '2026-04-01T04:00Z'])
    expect(bounds('3mo', 'America/New_York', '2026-04-01T03:59Z')[1]).toBe('2026-04-01T04:00Z')
  })

  test('has years that begin at midnight of the zone', () => {
    expect(bounds('1y', 'Asia/Tokyo', '2026-12-31T15:00Z')).toEqual(['2026-12-31T15:00Z', '2027-12-31T15:00Z'])
    expect(windowAt('1y', 'Asia/Tokyo', '2026-12-31T15:00Z').number).toBe(57)
    expect(windowAt('1y', 'America/New_York', '1970-01-01T00:00Z').number).toBe(-1)
  })
})

describe('where clocks change at night', () => {
  test('Europe/Berlin has a day of 23 hours in spring and one of 25 in autumn', () => {
    expect(bounds('1d', 'Europe/Berlin', '2026-03-29T12:00Z')).toEqual(['2026-03-28T23:00Z', '2026-03-29T22:00Z'])
    expect(bounds('1d', 'Europe/Berlin', '2026-10-25T12:00Z')).toEqual(['2026-10-24T22:00Z', '2026-10-25T23:00Z'])
    expect(windowAt('1d', 'Europe/Berlin', '2026-03-28T23:00Z').number).toBe(dayNumber('2026-03-29'))
  })

  test('the last window of a day is shorter or longer', () => {
    expect(hoursOf('6h', 'Europe/Berlin', '2026-03-28T23:00Z', '2026-03-29T22:00Z')).toEqual([6, 6, 6, 5])
    expect(hoursOf('6h', 'Europe/Berlin', '2026-10-24T22:00Z', '2026-10-25T23:00Z')).toEqual([6, 6, 6, 7])
    expect(hoursOf('12h', 'America/New_York', '2026-03-08T05:00Z', '2026-03-09T04:00Z')).toEqual([12, 11])
    expect(hoursOf('12h', 'America/New_York', '2026-11-01T04:00Z', '2026-11-02T05:00Z')).toEqual([12, 13])
  })

  test('a day of 23 hours has fewer windows of an hour, one of 25 hours ends with a window of two', () => {
    expect(hoursOf('1h', 'America/New_York', '2026-03-08T05:00Z', '2026-03-09T04:00Z')).toEqual(Array(23).fill(1))
    expect(hoursOf('1h', 'America/New_York', '2026-11-01T04:00Z', '2026-11-02T05:00Z')).toEqual([...Array(23).fill(1), 2])
    expect(windowAt('1h', 'America/New_York', '2026-11-02T04:30Z').number).toBe(dayNumber('2026-11-01') * 24 + 23)
    expect(windowAt('1h', 'America/New_York', '2026-11-02T05:00Z').number).toBe(dayNumber('2026-11-02') * 24)
    expect(bounds('1m', 'America/New_York', '2026-11-02T04:30Z')).toEqual(['2026-11-02T03:59Z', '2026-11-02T05:00Z'])
  })

  test('Australia/Lord_Howe changes its clocks by half an hour', () => {
    expect(hoursOf('1d', 'Australia/Lord_Howe', '2026-04-03T13:00Z', '2026-04-05T13:30Z')).toEqual([24, 24.5])
    expect(hoursOf('12h', 'Australia/Lord_Howe', '2026-10-03T13:30Z', '2026-10-04T13:00Z')).toEqual([12, 11.5])
  })
})

test('any window in which a short day ends is cut, though it may not be the last of most days', () => {
  // 23 hours and 45 minutes: the 143rd window of ten minutes, of 144
  const window = windowAt('10m', 'Asia/Kathmandu', '1986-01-01T18:12Z')
  expect(window.number).toBe(dayNumber('1986-01-01') * 144 + 142)
  expect(bounds('10m', 'Asia/Kathmandu', '1986-01-01T18:12Z')).toEqual(['1986-01-01T18:10Z', '1986-01-01T18:15Z'])
})

describe('where clocks change at midnight', () => {
  test('a day without 00:00 begins at its first instant', () => {
    expect(bounds('1d', 'America/Sao_Paulo', '2018-11-04T12:00Z')).toEqual(['2018-11-04T03:00Z', '2018-11-05T02:00Z'])
    expect(bounds('1h', 'America/Sao_Paulo', '2018-11-04T03:30Z')).toEqual(['2018-11-04T03:00Z', '2018-11-04T04:00Z'])
    expect(bounds('1d', 'Africa/Cairo', '2026-04-24T12:00Z')).toEqual(['2026-04-23T22:00Z', '2026-04-24T21:00Z'])
  })

  test('a day whose last hour comes twice ends after the second', () => {
    expect(bounds('1d', 'America/Sao_Paulo', '2018-02-18T02:30Z')).toEqual(['2018-02-17T02:00Z', '2018-02-18T03:00Z'])
    expect(bounds('1d', 'America/Sao_Paulo', '2018-02-18T03:00Z')[0]).toBe('2018-02-18T03:00Z')
  })

  test('a day that has begun is not interrupted when clocks go back to the day before', () => {
    // 00:00 at 02:30Z, 23:01 again at 02:31Z, 00:00 again at 03:30Z
    for (const time of ['2010-11-07T02:30Z', '2010-11-07T02:31Z', '2010-11-07T03:29Z', '2010-11-07T03:30Z']) {
      expect(bounds('1d', 'America/St_Johns', time)).toEqual(['2010-11-07T02:30Z', '2010-11-08T03:30Z'])
    }
    expect(bounds('1d', 'America/St_Johns', '2010-11-07T02:29:59.999Z')[1]).toBe('2010-11-07T02:30Z')
  })
})

describe('where a day is missing', () => {
  test('Pacific/Apia goes from 29 to 31 December 2011', () => {
    const before = windowAt('1d', 'Pacific/Apia', '2011-12-30T09:59:59.999Z')
    const after = windowAt('1d', 'Pacific/Apia', '2011-12-30T10:00Z')
    expect(before).toEqual({ number: dayNumber('2011-12-29'), startMs: Date.parse('2011-12-29T10:00Z'), endMs: after.startMs })
    expect(after).toEqual({
      number: dayNumber('2011-12-31'),
      startMs: Date.parse('2011-12-30T10:00Z'),
      endMs: Date.parse('2011-12-31T10:00Z'),
    })
    expect(hoursOf('1w', 'Pacific/Apia', '2011-12-26T10:00Z', '2012-01-01T10:00Z')).toEqual([6 * 24])
  })

  test('Pacific/Kiritimati ends 1994 a day early', () => {
    expect(bounds('1y', 'Pacific/Kiritimati', '1994-12-31T09:59Z')[1]).toBe('1994-12-31T10:00Z')
    expect(bounds('1mo', 'Pacific/Kiritimati', '1994-12-31T10:00Z')).toEqual(['1994-12-31T10:00Z', '1995-01-31T10:00Z'])
  })
})

test('offsets need not be whole hours, or whole minutes', () => {
  expect(bounds('1d', 'Asia/Kathmandu', '2026-06-01T00:00Z')).toEqual(['2026-05-31T18:15Z', '2026-06-01T18:15Z'])
  expect(bounds('1h', 'Asia/Kathmandu', '2026-06-01T00:00Z')).toEqual(['2026-05-31T23:15Z', '2026-06-01T00:15Z'])
  expect(bounds('1d', 'Africa/Monrovia', '1971-06-01T12:00Z')).toEqual(['1971-06-01T00:44:30.000Z', '1971-06-02T00:44:30.000Z'])
})

test('a time between two milliseconds has the window of the first', () => {
  const endMs = Date.parse('2026-03-28T23:00Z')
  expect(new Calendar('1d', 'Europe/Berlin').windowAt(endMs - 0.25).endMs).toBe(endMs)
})

describe('a calendar', () => {
  test('returns the same frozen window for every time within it, and goes back in time too', () => {
    const calendar = new Calendar('1h', 'Europe/Berlin')
    const first = calendar.windowAt(Date.parse('2026-06-01T10:00Z'))
    expect(Object.isFrozen(first)).toBe(true)
    expect(calendar.windowAt(first.endMs - 1)).toBe(first)
    expect(calendar.windowAt(first.endMs).startMs).toBe(first.endMs)
    expect(calendar.windowAt(first.startMs - 1).endMs).toBe(first.startMs)
    expect(calendar.windowAt(first.startMs)).toEqual(first)
  })

  test('refuses a zone that nobody knows when it is made', () => {
    expect(() => new Calendar('1d', 'Europe/Atlantis')).toThrow(RangeError)
    expect(() => new Calendar('1d', 'Europe/Atlantis')).toThrow('Europe/Atlantis')
    expect(() => calendarOf('1h', '')).toThrow(RangeError)
  })

  test('is shared by all who ask for the same period and zone', () => {
    expect(calendarOf('1h', 'Europe/Berlin')).toBe(calendarOf('1h', 'Europe/Berlin'))
    expect(calendarOf('1h', 'Europe/Berlin')).not.toBe(calendarOf('2h', 'Europe/Berlin'))
    expect(calendarOf('1h', 'Europe/Berlin')).not.toBe(calendarOf('1h', 'Europe/Paris'))
    expect(calendarOf('1h', 'Europe/Berlin')).toMatchObject({ period: '1h', zone: 'Europe/Berlin' })
  })
})

describe('an anchor', () => {
  test.each(['UTC', 'Europe/Berlin', 'America/St_Johns'])(
    'moves the first day of weeks and months, and every instant is in one window, in %s',
    (zone) => {
      for (const period of ['1w', '1mo'] as const) {
        for (let anchor = 1; anchor <= (period === '1w' ? 7 : 28); anchor++) {
          const calendar = calendarOf(period, zone, anchor)
          const days = calendarOf('1d', zone)
          let ms = calendar.windowAt(Date.parse('2023-12-15T12:00Z')).startMs
          let before: Window | undefined
          while (ms < Date.parse('2025-03-01T00:00Z')) {
            const window = calendar.windowAt(ms)
            const first = new Date(days.windowAt(window.startMs).number * DAY_MS)
            expect(period === '1w' ? ((first.getUTCDay() + 6) % 7) + 1 : first.getUTCDate()).toBe(anchor)
            expect(days.windowAt(window.startMs).startMs).toBe(window.startMs)
            expect(calendar.windowAt(window.endMs - 1)).toEqual(window)
            if (before !== undefined) expect([window.startMs, window.number]).toEqual([before.endMs, before.number + 1])
            before = window
            ms = window.endMs
          }
        }
      }
    },
  )

  test('of a calendar is written with its period, and read again', () => {
    expect(anchoredPeriod(calendarOf('1mo', 'UTC', 15))).toBe('1mo@15')
    expect(anchoredPeriod(calendarOf('1w', 'UTC', 1))).toBe('1w')
    for (const text of ['1d', '1w', '1w@7', '1mo@28', '1mo@2']) expect(anchoredPeriod(readAnchoredPeriod(text)!)).toBe(text)
    for (const text of ['', '2d', '1w@8', '1w@0', '1w@1', '1mo@29', '1mo@015', '1d@2', '1w@', '1w@2@3', '@2', '1w@-1', '1w@1e0'])
      expect([text, readAnchoredPeriod(text)]).toEqual([text, undefined])
  })
})
