import fc from 'fast-check'
import { expect, test } from 'vitest'
import { CounterFamily } from '../../telemetry/metrics/metric-families.ts'
import { MetricMemory, newMetricBuffer } from '../../telemetry/metrics/metric-memory.ts'
import { busiest, MetricLook } from './metric-look.ts'

test('the busiest are those that sorting would put first, without those that did nothing', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20)), fc.integer({ min: 1, max: 10 }), (scores, count) => {
      const items = scores.map((score, place) => ({ score, place }))
      const sorted = items.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score)
      expect(busiest(items, count, ({ score }) => score)).toEqual(sorted.slice(0, count))
    }),
  )
})

test('a gauge of a longer span is the highest value that a look has seen in it', () => {
  const memory = new MetricMemory(newMetricBuffer(1), 0)
  const look = new MetricLook(memory, 1)
  const open = new CounterFamily(memory, 'edge_proxy_open_requests').series()
  const inFlight = (span?: number): number => {
    const steps = look.backendSteps(span)
    for (;;) {
      const { done, value } = steps.next()
      if (done) return value.in_flight
    }
  }
  for (const count of [1, 7, 2]) {
    open.count = count
    expect(inFlight()).toBe(count)
  }
  expect(inFlight(0)).toBe(7)
  open.count = 1
  inFlight()
  expect(inFlight(0)).toBe(1)
})
