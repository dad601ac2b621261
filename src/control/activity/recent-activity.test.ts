import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { until } from '../../../test/support/until.ts'
import { CounterFamily } from '../../telemetry/metrics/metric-families.ts'
import { MetricMemory, newMetricBuffer } from '../../telemetry/metrics/metric-memory.ts'
import { RecentActivity } from './recent-activity.ts'

test('what policies decided a minute ago is forgotten, without anybody having asked before', async () => {
  const clock = new ManualClock()
  const memory = new MetricMemory(newMetricBuffer(1), 0)
  const recent = new RecentActivity({ memory, logger: pino({ level: 'silent' }), nowMs: () => clock.nowMs(), intervalMs: 1 })
  onTestFinished(() => recent.stop())
  const covered = new CounterFamily(memory, 'edge_policy_requests_total').series('p')
  covered.count = 5
  new CounterFamily(memory, 'edge_rejects_total').series('p', 'r', 'token_bucket_exceeded').count = 2
  new CounterFamily(memory, 'edge_would_reject_total').series('p', 'r', 'token_bucket_exceeded').count = 4
  const nothing = { allowed: 0, rejected: 0, would_reject: 0, rules: new Map() }
  const rules = new Map([['r', { rejected: 2, would_reject: 4 }]])
  expect(recent.of(['p', 'q'])).toEqual([{ allowed: 3, rejected: 2, would_reject: 4, rules }, nothing])
  await until(() => {
    clock.advance(10_000)
    return recent.of(['p'])[0]!.allowed === 0
  })
  covered.count = 12
  expect(recent.of(['p'])[0]!.allowed).toBe(7)
})
