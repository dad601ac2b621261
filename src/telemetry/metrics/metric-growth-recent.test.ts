import { expect, test } from 'vitest'
import { CounterFamily } from './metric-families.ts'
import { RecentCounts } from './metric-growth.ts'
import { MetricMemory, newMetricBuffer } from './metric-memory.ts'

const NAME = 'edge_would_reject_total'

test('what was counted lately is what came in the last minute, over all threads', () => {
  const buffer = newMetricBuffer(3)
  const workers = [1, 2].map((lane) => new CounterFamily(new MetricMemory(buffer, lane), NAME))
  const recent = new RecentCounts(new MetricMemory(buffer, 0), [NAME])
  const note = (nowMs: number): void => {
    for (const _step of recent.noteSteps(nowMs));
  }
  workers[0]!.series('p', 'a', 'x').count = 5
  expect(recent.since(NAME, 0)(0)).toBe(5)
  note(0)
  workers[1]!.series('p', 'a', 'x').count = 2
  workers[1]!.series('p', 'b', 'x').count = 3
  for (let nowMs = 5000; nowMs < 60_000; nowMs += 5000) note(nowMs)
  expect([recent.since(NAME, 59_999)(0), recent.since(NAME, 59_999)(1)]).toEqual([7, 3])
  expect([recent.since(NAME, 60_000)(0), recent.since(NAME, 60_000)(1)]).toEqual([2, 3])
  note(60_000)
  expect([recent.since(NAME, 65_000)(0), recent.since(NAME, 65_000)(1)]).toEqual([0, 0])
  note(500_000)
  expect(recent.since(NAME, 510_000)(0)).toBe(0)
})
