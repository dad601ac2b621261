import { describe, expect, test } from 'vitest'
import { activity, covered, INTERVAL_MS, sampled } from '../../support/admin/sampled.ts'

describe('GET activity?range=', () => {
  test('has a sample for each interval of the range, and those since the last that is known', async () => {
    const { edge, clock } = await sampled()
    for (let minute = 0; minute < 8; minute++) {
      await edge.decide({ uri: '/none' })
      clock.advance(60_000)
      await activity(edge.adminPort)
    }
    expect(await covered(edge.adminPort, '?range=24h')).toEqual([
      ['2026-01-15T12:04:00.000Z', 240, 4],
      ['2026-01-15T12:08:00.000Z', 240, 4],
    ])
    expect(await covered(edge.adminPort, '?range=24h&since=2026-01-15T12:04:00Z')).toEqual([['2026-01-15T12:08:00.000Z', 240, 4]])
    expect(await covered(edge.adminPort, '?range=6h')).toHaveLength(8)
    expect(await covered(edge.adminPort, '?range=15m')).toEqual(await covered(edge.adminPort, ''))
  })

  test('keeps a time in which the process was suspended apart, and ends a sample where the clock is set back', async () => {
    const { edge, clock, sample } = await sampled()
    await edge.decideTimes(2, { uri: '/none' })
    await sample()
    clock.advance(300_000 - INTERVAL_MS)
    await edge.decide({ uri: '/none' })
    await sample()
    await edge.decideTimes(4, { uri: '/none' })
    await sample()
    clock.setBack(60_000)
    for (let look = 0; look < 5; look++) await sample()
    expect(await covered(edge.adminPort, '?range=1h')).toEqual([
      ['2026-01-15T12:00:02.000Z', 2, 2],
      ['2026-01-15T12:05:02.000Z', 300, 1],
      ['2026-01-15T12:05:04.000Z', 2, 4],
      ['2026-01-15T12:04:14.000Z', 10, 0],
    ])
  })
})
