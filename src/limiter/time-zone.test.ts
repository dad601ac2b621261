import { describe, expect, test, vi } from 'vitest'
import { timeZoneOf } from './time-zone.ts'

describe('the name of a zone', () => {
  test.each(['UTC', 'utc', 'Utc', 'Etc/UTC', 'etc/utc', 'GMT', 'Zulu'])('is UTC for %s', (name) => {
    expect(timeZoneOf(name)).toBe(timeZoneOf('UTC'))
    expect(timeZoneOf(name).name).toBe('UTC')
  })

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

test('a day costs no more than a few dozen calls of Intl, whatever clocks did at its midnight', () => {
  const format = vi.spyOn(Intl.DateTimeFormat.prototype as { readonly format: unknown }, 'format', 'get')
  try {
    for (const [name, time] of [
      ['Pacific/Apia', '2011-12-30T10:00Z'],
      ['America/Sao_Paulo', '2018-11-04T03:00Z'],
      ['America/St_Johns', '2010-11-07T02:30Z'],
      ['Europe/Berlin', '2026-03-29T12:00Z'],
    ] as const) {
      const zone = timeZoneOf(name)
      for (const ms of [Date.parse(time) - 1, Date.parse(time)]) {
        format.mockClear()
        const day = zone.dayAt(ms)
        expect(zone.startMs(day)).toBeLessThanOrEqual(ms)
        expect(zone.startMs(day + 1)).toBeGreaterThan(ms)
        expect(format.mock.calls.length).toBeGreaterThan(0)
        expect(format.mock.calls.length).toBeLessThanOrEqual(48)
      }
    }
  } finally {
    format.mockRestore()
  }
})

test('UTC asks Intl for nothing', () => {
  const made = vi.spyOn(Intl, 'DateTimeFormat')
  try {
    expect(timeZoneOf('uTC').dayAt(timeZoneOf('Etc/UTC').startMs(20_000))).toBe(20_000)
    expect(made).not.toHaveBeenCalled()
  } finally {
    made.mockRestore()
  }
})
