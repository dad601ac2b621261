import { expect, test } from 'vitest'
import { Histogram } from './metric-families.ts'
import { HistogramGrowth } from './metric-growth.ts'
import { MetricMemory, newMetricBuffer } from './metric-memory.ts'

const NAME = 'edge_decision_duration_seconds'

test('quantiles are of what all threads have observed since the last look', () => {
  const buffer = newMetricBuffer(3)
  const threads = [1, 2].map((lane) => new Histogram(new MetricMemory(buffer, lane), NAME).series())
  const growth = new HistogramGrowth(new MetricMemory(buffer, 0), NAME)
  growth.look()
  expect([growth.count, growth.quantile(0.5)]).toEqual([0, null])
  // All in the bucket from 0.5 ms to 1 ms, and from 1 ms to 2.5 ms.
  for (let i = 0; i < 50; i++) threads[0]!.observe(0.0007)
  for (let i = 0; i < 50; i++) threads[1]!.observe(0.002)
  growth.look()
  expect(growth.count).toBe(100)
  expect(growth.quantile(0.25)).toBeCloseTo(0.00075, 9)
  expect(growth.quantile(0.5)).toBeCloseTo(0.001, 9)
  expect(growth.quantile(0.75)).toBeCloseTo(0.00175, 9)
  growth.look()
  expect(growth.quantile(0.99)).toBeNull()
  threads[0]!.observe(1000)
  growth.look()
  // Above the last bound nothing more is known.
  expect(growth.quantile(0.5)).toBe(1)
})
