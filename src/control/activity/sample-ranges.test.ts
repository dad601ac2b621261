import { describe, expect, test } from 'vitest'
import { OpenSpan, RecentSamples, SAMPLE_RANGES } from './sample-ranges.ts'

const QUARTER_HOUR_MS = 15 * 60_000
const timeOf = (i: number): string => new Date(Date.UTC(2026, 0, 1) + i * 2000).toISOString()

describe('the samples that are kept', () => {
  test('are those of a quarter of an hour', () => {
    const samples = new RecentSamples(QUARTER_HOUR_MS)
    for (let i = 0; i < 1000; i++) samples.add(timeOf(i), String(i))
    expect(samples.since(undefined)).toEqual(Array.from({ length: 450 }, (_, i) => String(550 + i)))
  })

  test('are fewer where their texts are long', () => {
    const samples = new RecentSamples(QUARTER_HOUR_MS)
    for (let i = 0; i < 450; i++) samples.add(timeOf(i), 'x'.repeat(10_000))
    expect(samples.since(undefined).length).toBe(104)
    samples.add(timeOf(450), 'x'.repeat(10_000_000))
    expect(samples.since(undefined)).toHaveLength(1)
  })

  test('are those of the range even if there are few of them, because the machine slept', () => {
    const samples = new RecentSamples(QUARTER_HOUR_MS)
    for (const i of [0, 1, 600, 601]) samples.add(timeOf(i), String(i))
    expect(samples.since(undefined)).toEqual(['600', '601'])
    expect(samples.since(timeOf(0))).toEqual(['600', '601'])
    expect(samples.since(timeOf(600))).toEqual(['601'])
  })

  test('name the busiest policies of the last minute, each once', () => {
    const samples = new RecentSamples(QUARTER_HOUR_MS)
    samples.add(timeOf(0), '', ['old'])
    for (let i = 1; i <= 33; i++) samples.add(timeOf(i), '', ['a', `b${i % 2}`])
    expect(samples.busiest()).toEqual(['a', 'b1', 'b0'])
  })
})

test('no range has more than 450 samples, and each interval is a multiple of the one before', () => {
  const ranges = Object.values(SAMPLE_RANGES)
  for (const [i, { intervalMs, lengthMs }] of ranges.entries()) {
    expect(lengthMs / intervalMs).toBeLessThanOrEqual(450)
    if (i > 0) expect(intervalMs % ranges[i - 1]!.intervalMs).toBe(0)
  }
})

describe('the span of a longer sample', () => {
  test('is full after its interval, even if timers fired early or late', () => {
    for (const elapsedMs of [1900, 2000, 2100]) {
      const span = new OpenSpan(10_000)
      let looks = 0
      for (; !span.isFull; looks++) span.add(elapsedMs)
      expect([looks, span.end(), span.isEmpty]).toEqual([5, 5 * elapsedMs, true])
    }
  })

  test.each([
    [2000, 2000, false],
    [9999, 9999, false],
    [10_000, 10_000, true],
    [2000, 7001, true],
    [2000, 6900, false],
    [2000, -3001, true],
  ])('%d ms of work in %d ms of the wall clock end it: %s', (elapsedMs, wallElapsedMs, isBroken) => {
    expect(new OpenSpan(10_000).isBrokenBy(elapsedMs, wallElapsedMs)).toBe(isBroken)
  })
})
