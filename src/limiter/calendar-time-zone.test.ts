import { describe, expect, test, vi } from 'vitest'
import { timeZoneOf } from './calendar.ts'

describe('the name of a zone', () => {
  test('is not UTC for a zone that is hours away', () => {
    expect(timeZoneOf('Etc/GMT+5').name).toBe('Etc/GMT+5')
    expect(timeZoneOf('Etc/GMT+5').startMs(1)).toBe(29 * 3_600_000)
  })

  test.each(['UTC', 'utc', 'Utc', 'Etc/UTC', 'etc/utc', 'GMT', 'Etc/GMT-0', 'Zulu', 'Etc/UCT', 'Universal', 'Greenwich'])(
    'is UTC for %s',
    (name) => {
      expect(timeZoneOf(name)).toBe(timeZoneOf('UTC'))
      expect(timeZoneOf(name).name).toBe('UTC')
    },
  )

  test.each(['Europe/Berlin', 'Asia/Kolkata', 'Asia/Kathmandu', 'Europe/Kyiv', 'America/Argentina/Buenos_Aires'])(
    'stays %s, whatever Intl calls it',
    (name) => {
      expect(timeZoneOf(name).name).toBe(name)
    },
  )

  test('is one for all spellings of it', () => {
    expect(timeZoneOf('europe/berlin')).toBe(timeZoneOf('Europe/Berlin'))
    expect(timeZoneOf('EUROPE/BERLIN')).toBe(timeZoneOf('Europe/Berlin'))
    expect(timeZoneOf('asia/kolkata')).toBe(timeZoneOf('aSIA/kOLKATA'))
  })
})

describe('a change that leaps over midnight from before it', () => {
  // Not seen since 1970, but nothing forbids it.
  test('begins the day, as in Toronto from 23:30 to 00:30', () => {
    expect(timeZoneOf('America/Toronto').startMs(dayNumber('1919-03-31'))).toBe(Date.parse('1919-03-31T04:30Z'))
  })

  test.each(['04:17:22', '04:17:23', '04:17:24', '04:17:25'])('begins the day at its very second, %s', (time) => {
    const changeMs = Date.parse(`2026-03-29T${time}Z`)
    const clocks = spyOnFormat()
    clocks.mockReturnValue((ms: number) => utcText(ms - (ms < changeMs ? 5 : 4) * 3_600_000))
    try {
      const zone = timeZoneOf('America/Winnipeg')
      expect(zone.startMs(dayNumber('2026-03-29'))).toBe(changeMs)
      expect(zone.dayAt(changeMs - 1)).toBe(dayNumber('2026-03-28'))
      expect(zone.dayAt(changeMs)).toBe(dayNumber('2026-03-29'))
    } finally {
      clocks.mockRestore()
    }
  })
})

describe('calls of Intl', () => {
  test.each([
    ['Europe/Berlin', '2026-06-01T12:00Z', 7],
    ['Europe/Berlin', '2026-03-29T12:00Z', 9],
    ['America/Sao_Paulo', '2018-11-04T03:00Z', 48],
    ['America/St_Johns', '2010-11-07T02:30Z', 48],
    ['Pacific/Apia', '2011-12-30T10:00Z', 48],
  ])('for a day of %s at %s are %d at most', (name, time, most) => {
    const zone = timeZoneOf(name)
    const format = spyOnFormat()
    try {
      for (const ms of [Date.parse(time) - 1, Date.parse(time)]) {
        format.mockClear()
        const day = zone.dayAt(ms)
        expect(zone.startMs(day)).toBeLessThanOrEqual(ms)
        expect(zone.startMs(day + 1)).toBeGreaterThan(ms)
        expect(format.mock.calls.length).toBeGreaterThan(0)
        expect(format.mock.calls.length).toBeLessThanOrEqual(most)
      }
    } finally {
      format.mockRestore()
    }
  })

  test('are none for UTC', () => {
    const made = vi.spyOn(Intl, 'DateTimeFormat')
    try {
      expect(timeZoneOf('uTC').dayAt(timeZoneOf('Etc/UTC').startMs(20_000))).toBe(20_000)
      expect(made).not.toHaveBeenCalled()
    } finally {
      made.mockRestore()
    }
  })
})

/** `format` is a getter for a function that is bound to its formatter. */
function spyOnFormat() {
  return vi.spyOn(Intl.DateTimeFormat.prototype as { readonly format: unknown }, 'format', 'get')
}

function utcText(ms: number): string {
  return new Date(ms).toLocaleString('en-US', { timeZone: 'UTC', hourCycle: 'h23' })
}

function dayNumber(date: string): number {
  return Date.parse(`${date}T00:00Z`) / 86_400_000
}
