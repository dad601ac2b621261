import { expect, test } from 'vitest'
import { CounterFamily } from './metric-families.ts'
import { CounterGrowth } from './metric-growth.ts'
import { MetricMemory, newMetricBuffer } from './metric-memory.ts'

const NAME = 'edge_refused_requests_total'

test('a counter has grown by what all threads have counted since, in old series and in new ones', () => {
  const buffer = newMetricBuffer(3)
  const threads = [1, 2].map((lane) => new CounterFamily(new MetricMemory(buffer, lane), NAME))
  const growth = new CounterGrowth(new MetricMemory(buffer, 0), NAME)
  const look = (): Record<string, number> => {
    const grown: Record<string, number> = {}
    for (const _step of growth.steps(([name], by) => Object.assign(grown, { [name!]: by })));
    return grown
  }
  expect(look()).toEqual({})
  threads[0]!.series('a').count += 2
  threads[1]!.series('a').count += 3
  expect(look()).toEqual({ a: 5 })
  expect(look()).toEqual({})
  for (let i = 0; i < 1500; i++) threads[0]!.series(`b${i}`).count += 1
  threads[1]!.series('a').count += 1
  expect(Object.keys(look())).toHaveLength(1501)
  expect(look()).toEqual({})
})

test('a longer span has the sums of all looks since it was last taken, for each series, and nothing that no look has seen', () => {
  const memory = new MetricMemory(newMetricBuffer(1), 0)
  const counts = new CounterFamily(memory, NAME)
  const growth = new CounterGrowth(memory, NAME, 2)
  const look = (): void => {
    for (const _step of growth.steps(() => {}));
  }
  const take = (span: number): Record<string, number> => {
    const grown: Record<string, number> = {}
    for (const _step of growth.takeSteps(span, ([name], by) => Object.assign(grown, { [name!]: by })));
    return grown
  }
  expect(take(0)).toEqual({})
  counts.series('a').count += 2
  look()
  counts.series('a').count += 3
  counts.series('b').count += 1
  look()
  counts.series('b').count += 7
  expect(take(0)).toEqual({ a: 5, b: 1 })
  expect(take(0)).toEqual({})
  for (let i = 0; i < 1500; i++) counts.series(`c${i}`).count += 1
  look()
  expect(Object.keys(take(0))).toHaveLength(1501)
  expect(take(1)).toMatchObject({ a: 5, b: 8, c0: 1, c1499: 1 })
})
