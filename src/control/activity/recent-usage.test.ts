import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { until } from '../../../test/support/until.ts'
import { CounterFamily } from '../../telemetry/metrics/metric-families.ts'
import { MetricMemory, newMetricBuffer } from '../../telemetry/metrics/metric-memory.ts'
import { RecentUsage } from './recent-usage.ts'

test('what rules used is forgotten after a minute, after fifteen, or never', async () => {
  const clock = new ManualClock()
  const memory = new MetricMemory(newMetricBuffer(1), 0)
  const recent = new RecentUsage({ memory, logger: pino({ level: 'silent' }), clock, intervalMs: 1 })
  onTestFinished(() => recent.stop())
  const tokens = new CounterFamily(memory, 'edge_llm_tokens_used_total')
  const money = new CounterFamily(memory, 'edge_cost_spent_total')
  tokens.series('p', 'few').count = 10
  tokens.series('p', 'many').count = 1000
  money.series('p', 'money').count = 0.5
  const name = { policy: 'p', rule: 'few', unit: 'tokens' } as const
  const few = () => Object.values(recent.of([name]).asked[0]!.used)
  expect(few()).toEqual([10, 10, 10])
  expect(recent.of([]).most.map(({ rule }) => rule)).toEqual(['many', 'money', 'few'])
  expect(recent.of([{ ...name, unit: 'money' }]).asked[0]!.used.since_start).toBe(0)
  await until(() => {
    clock.advance(5000)
    return few()[0] === 0
  })
  expect(few()).toEqual([0, 10, 10])
  await until(() => {
    clock.advance(60_000)
    return few()[1] === 0
  })
  expect(few()).toEqual([0, 0, 10])
  expect(recent.of([]).most).toEqual([])
})
