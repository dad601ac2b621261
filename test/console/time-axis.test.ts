import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { momentLabel, tickLabel, timeTicks } from '../../console/charts/time-axis.ts'

/** In seconds. */
const RANGES = [900, 3600, 21_600, 86_400]
const atS = (text: string): number => Date.parse(text) / 1000
const labels = (from: string, to: string, widthPx: number): string[] => timeTicks(atS(from), atS(to), widthPx).map(tickLabel)

describe('in Berlin', () => {
  const { TZ } = process.env
  beforeEach(() => {
    process.env['TZ'] = 'Europe/Berlin'
  })
  afterEach(() => {
    if (TZ === undefined) delete process.env['TZ']
    else process.env['TZ'] = TZ
  })

  test('ticks are at round times of the zone, and midnight is a date', () => {
    expect(labels('2026-01-15T14:03:20Z', '2026-01-15T14:18:20Z', 240)).toEqual(['15:06', '15:09', '15:12', '15:15', '15:18'])
    expect(labels('2026-01-15T14:03:20Z', '2026-01-16T14:03:20Z', 240)).toEqual(['18:00', '16 Jan', '06:00', '12:00'])
    expect(labels('2026-01-15T22:59:50Z', '2026-01-15T23:00:20Z', 240)).toEqual(['23:59:50', '16 Jan', '00:00:10', '00:00:20'])
  })

  test('ticks are in order where clocks are set forward or back', () => {
    expect(labels('2026-03-28T23:00:00Z', '2026-03-29T05:00:00Z', 400)).toEqual([
      '29 Mar',
      '01:00',
      '03:00',
      '04:00',
      '05:00',
      '06:00',
      '07:00',
    ])
    const back = timeTicks(atS('2026-10-24T22:00:00Z'), atS('2026-10-25T04:00:00Z'), 400)
    expect(back.map(tickLabel)).toEqual(['25 Oct', '01:00', '02:00', '03:00', '04:00', '05:00'])
    expect(back).toEqual(back.toSorted((a, b) => a - b))
  })

  test('a moment has its date if the axis crosses midnight', () => {
    const [from, to] = [atS('2026-01-15T14:00:00Z'), atS('2026-01-15T22:00:00Z')]
    expect(momentLabel(to, { fromS: from, toS: to })).toBe('23:00:00')
    expect(momentLabel(from, { fromS: from, toS: to + 3600 })).toBe('15 Jan, 15:00:00')
  })
})

test('every range has at least three ticks on a phone, and room for each label', () => {
  for (const seconds of RANGES)
    for (let fromS = atS('2026-01-15T00:00:00Z'); fromS < atS('2026-01-16T00:00:00Z'); fromS += 1801)
      for (const widthPx of [180, 240, 500, 1200]) {
        const ticks = timeTicks(fromS, fromS + seconds, widthPx)
        expect(ticks.length).toBeGreaterThanOrEqual(3)
        for (const [i, tick] of ticks.entries())
          if (i > 0) expect(((tick - ticks[i - 1]!) / seconds) * widthPx).toBeGreaterThanOrEqual(Math.min(46, widthPx / 4))
      }
})
