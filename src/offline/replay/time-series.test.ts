import fc from 'fast-check'
import { expect, test } from 'vitest'
import { TimeSeries } from './time-series.ts'

test('each time is counted in its interval, however long the span turns out to be', () => {
  const steps = fc.array(fc.oneof(fc.nat(2000), fc.nat(10_000_000)), { minLength: 1, maxLength: 100 })
  fc.assert(
    fc.property(fc.nat(2_000_000_000_000), steps, (startMs, given) => {
      const series = new TimeSeries(2)
      const times: number[] = []
      let timeMs = startMs
      for (const step of given) {
        timeMs += step
        times.push(timeMs)
        series.add(times.length % 2, timeMs)
      }
      const expected = [new Map<number, number>(), new Map<number, number>()]
      const indexOf = (ms: number): number => Math.floor(ms / series.intervalMs) - series.startMs / series.intervalMs
      for (const [i, ms] of times.entries()) {
        const counts = expected[(i + 1) % 2]!
        counts.set(indexOf(ms), (counts.get(indexOf(ms)) ?? 0) + 1)
      }
      for (const which of [0, 1]) {
        const counts = series.countsOf(which)
        expect(counts.length).toBe(indexOf(times.at(-1)!) + 1)
        expect(counts.length).toBeLessThanOrEqual(720)
        expect(counts).toEqual(counts.map((_, i) => expected[which]!.get(i) ?? 0))
      }
    }),
    { numRuns: 20 },
  )
})
