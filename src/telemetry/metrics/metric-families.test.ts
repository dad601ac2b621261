import { expect, test } from 'vitest'
import { CounterFamily, Histogram } from './metric-families.ts'
import { MetricMemory, newMetricBuffer, OVERFLOW_CELL } from './metric-memory.ts'

test('a histogram that finds no room is counted as such, and touches no other series', () => {
  const memory = new MetricMemory(newMetricBuffer(1), 0)
  const others = Array.from({ length: 40 }, (_, i) => new CounterFamily(memory, 'edge_decisions_total').series(String(i)))
  // Until less is left than a histogram needs.
  for (let size = 2 ** 16; size > 1; size /= 2) while (memory.cellOf('filler', [`${size} ${Math.random()}`], size) !== OVERFLOW_CELL);
  const histogram = new Histogram(memory, 'edge_redis_round_trip_seconds')
  const series = histogram.series()
  for (const value of [0, 0.001, 0.01, 5, 100]) series.observe(value)
  expect(others.map(({ count }) => count)).toEqual(others.map(() => 0))
  expect(memory.sum(OVERFLOW_CELL)).toBe(5)
  expect([...histogram.values()]).toEqual([])
})
