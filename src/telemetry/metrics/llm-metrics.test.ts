import { expect, test } from 'vitest'
import type { PlanRule } from '../../policy/plan.ts'
import { InFlightMetrics } from './llm-metrics.ts'
import { CounterFamily, Series } from './metric-families.ts'
import { MetricMemory, newMetricBuffer, OVERFLOW_CELL } from './metric-memory.ts'

const MONEY = {
  name: 'dollars',
  policy: { id: 'p' },
  source: { algorithm: 'cost_budget' },
  counters: [{ unit: 10_000_000 }],
} as unknown as PlanRule

test('what is in flight is exactly nothing in the end, whatever came between, and a grant after the end changes nothing', () => {
  const memory = new MetricMemory(newMetricBuffer(1), 0)
  const metrics = new InFlightMetrics(memory)
  const shownOf = (reservation: string) => new CounterFamily(memory, 'edge_cost_in_flight').series('p', 'dollars', reservation).count
  const [whole, growing] = [metrics.open(MONEY, 100_000_001, false), metrics.open({ ...MONEY }, 200_000_002, true)]
  growing.add(100_000_001)
  expect([shownOf('whole'), shownOf('growing')]).toEqual([0.100000001, 0.300000003])
  growing.stopGrowing()
  expect([shownOf('whole'), shownOf('growing')]).toEqual([0.400000004, 0])
  whole.close()
  growing.close()
  growing.close()
  growing.add(5)
  growing.stopGrowing()
  expect([shownOf('whole'), shownOf('growing')]).toEqual([0, 0])
})

test('a gauge that found no room leaves the count of those alone', () => {
  const cells = new Float64Array([7, 1])
  new Series(cells, OVERFLOW_CELL).measure(3)
  new Series(cells, 1).measure(3)
  expect([...cells]).toEqual([7, 3])
})
