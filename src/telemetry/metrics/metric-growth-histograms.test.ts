import { expect, test } from 'vitest'
import { Histogram } from './metric-families.ts'
import { HistogramGrowth } from './metric-growth.ts'
import { MetricMemory, newMetricBuffer } from './metric-memory.ts'

const NAME = 'edge_decision_duration_seconds'

test('quantiles are of what all threads have observed since the last look', () => {
  const buffer = newMetricBuffer(3)
  const threads = [1, 2].map((lane) => new Histogram(new MetricMemory(buffer, lane), NAME).series())
  const growth = new HistogramGrowth(new MetricMemory(buffer, 0), NAME)
  const nothing = growth.look()
  expect([nothing.count, nothing.quantile(0.5)]).toEqual([0, null])
  // All in the bucket from 0.5 ms to 1 ms, and from 1 ms to 2.5 ms.
  for (let i = 0; i < 50; i++) threads[0]!.observe(0.0007)
  for (let i = 0; i < 50; i++) threads[1]!.observe(0.002)
  const grown = growth.look()
  expect(grown.count).toBe(100)
  expect(grown.quantile(0.25)).toBeCloseTo(0.00075, 9)
  expect(grown.quantile(0.5)).toBeCloseTo(0.001, 9)
  expect(grown.quantile(0.75)).toBeCloseTo(0.00175, 9)
  expect(growth.look().quantile(0.99)).toBeNull()
  threads[0]!.observe(1000)
  // Above the last bound nothing more is known.
  expect(growth.look().quantile(0.5)).toBe(1)
})

test('the quantiles of a longer span are those of all its observations, and each span is taken by itself', () => {
  const memory = new MetricMemory(newMetricBuffer(1), 0)
  const times = new Histogram(memory, NAME).series()
  const growth = new HistogramGrowth(memory, NAME, 2)
  for (let i = 0; i < 98; i++) times.observe(0.0007)
  growth.look()
  for (let i = 0; i < 2; i++) times.observe(0.002)
  // The mean of the medians would be 1.25 ms.
  expect(growth.look().quantile(0.5)).toBeCloseTo(0.00175, 9)
  const both = growth.take(0)
  expect(both.count).toBe(100)
  expect(both.quantile(0.49)).toBeCloseTo(0.00075, 9)
  expect(growth.take(0).count).toBe(0)
  times.observe(0.002)
  expect(growth.take(0).count).toBe(0)
  growth.look()
  expect([growth.take(0).count, growth.take(1).count]).toEqual([1, 101])
})
