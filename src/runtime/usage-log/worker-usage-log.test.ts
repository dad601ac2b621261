import { pino } from 'pino'
import { expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../../test/support/bundles/bundles.ts'
import { planOf } from '../../../test/support/bundles/compiled-rule.ts'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { MapStore } from '../../../test/support/store/map-store.ts'
import type { FromWorker } from '../../control/thread-messages.ts'
import type { Allowed } from '../../engine/decision.ts'
import { Engine } from '../../engine/engine.ts'
import { tokenCounts } from '../../llm/usage.ts'
import { PlainRequestView } from '../../request/view.ts'
import { MetricMemory, newMetricBuffer } from '../../telemetry/metrics/metric-memory.ts'
import { UsageLogMetrics } from '../../telemetry/metrics/usage-log-metrics.ts'
import type { SettledRequest } from '../../usage-log/usage-line.ts'
import { WorkerUsageLog } from './worker-usage-log.ts'

const BODY = { promptTokens: 3, requestedTokens: 7, choices: 1, isStream: false, model: 'm' }
const WORKER = 1

type Sent = FromWorker & { type: 'usage_lines' }

function newLog(labels: readonly string[] = []) {
  const clock = new ManualClock()
  const buffer = newMetricBuffer(2)
  const memory = new MetricMemory(buffer, WORKER)
  const sent: Sent[] = []
  const logged: { event: string }[] = []
  const engine = new Engine({ store: new MapStore(), clock })
  const limits = bundle(1, policy('p', { rules: [llmRule('r', [], { tokens_per_day: 1_000_000 })] }))
  engine.activate(planOf({ ...limits, usage: { labels } }))
  const log = new WorkerUsageLog({
    clock,
    logger: pino({}, { write: (line: string) => void logged.push(JSON.parse(line)) }),
    callerDigest: () => {
      throw new Error('broken')
    },
    metricMemory: memory,
    send: (message) => void sent.push(message as Sent),
  })
  const settled = (used: number, headers: Record<string, string> = {}): SettledRequest => {
    const view = new PlainRequestView({ method: 'POST', uri: '/v1/chat/completions', headers })
    const { reservation } = engine.decide(view, { body: BODY }) as Allowed
    const usage = { tokens: tokenCounts(3, used - 3), isStreamed: false }
    const ends = {
      end: 'done',
      sentModel: undefined,
      servedModel: undefined,
      backend: undefined,
      status: 200,
      firstByteMs: 1,
      lastByteMs: 2,
      traceId: undefined,
    }
    return { request: BODY, charges: [{ charge: reservation!.charges[0]!, reserved: 10, amount: used }], usage, ...ends }
  }
  const count = (name: string, ...labels: string[]): number => {
    const found = memory.entriesOf(name).find(({ values }) => JSON.stringify(values) === JSON.stringify(labels))
    return found === undefined ? 0 : memory.sum(found.cell)
  }
  return { log, sent, logged, settled, clock, count, buffer }
}

test('while the disk is slow, a bounded number of lines waits; those beyond are lost and counted with what they were charged', () => {
  const { log, sent, settled, count } = newLog()
  log.note(settled(5))
  log.flush()
  const one = settled(5)
  for (let i = 0; i < 30_000; i++) log.note(one)
  expect(sent).toHaveLength(1)
  const lost = count('edge_usage_lines_lost_total', 'disk_slow')
  const waiting = count('edge_usage_waiting_lines')
  expect(lost).toBeGreaterThan(1000)
  expect(lost + waiting).toBe(30_000)
  expect(count('edge_usage_lost_tokens_total', 'p', 'r')).toBe(5 * lost)
  expect(count('edge_usage_waiting_tokens', 'p', 'r')).toBe(5 * waiting)
  log.flush()
  expect(sent[1]!.hours[0]!.lines.length).toBeLessThan(5 * 1024 * 1024)
  expect([sent[1]!.lost, count('edge_usage_waiting_lines'), count('edge_usage_waiting_tokens', 'p', 'r')]).toEqual([lost, 0, 0])
})

test('lines are sent by their hours', () => {
  const { log, sent, settled, clock } = newLog()
  log.note(settled(5))
  log.note(settled(6))
  clock.advance(3_600_000)
  log.note(settled(7))
  clock.setBack(3_600_000)
  log.note(settled(8))
  log.flush()
  expect(sent[0]!.hours.map(({ hour, lines }) => [hour, lines.split('\n').length - 1])).toEqual([
    ['2026-01-15T12', 2],
    ['2026-01-15T13', 1],
    ['2026-01-15T12', 1],
  ])
})

test('a request that cannot be written down is not disturbed; it is counted, and the log says why', () => {
  const { log, sent, settled, logged, count } = newLog(['bearer'])
  log.note(settled(5, { authorization: 'Bearer secret' }))
  log.note(settled(5, { authorization: 'Bearer secret' }))
  log.note(settled(4))
  log.flush()
  expect(sent[0]!.hours[0]!.lines.split('\n')).toHaveLength(2)
  expect(logged).toMatchObject([{ event: 'internal_error', err: { message: 'broken' } }])
  expect([count('edge_usage_lines_lost_total', 'internal_error'), count('edge_usage_lost_tokens_total', 'p', 'r')]).toEqual([2, 10])
})

test('what waits in a worker that dies is lost, and counted by the main thread', () => {
  const { log, settled, count, buffer } = newLog()
  log.note(settled(5))
  log.note(settled(6))
  new UsageLogMetrics(new MetricMemory(buffer, 0)).loseWaiting(WORKER)
  expect([count('edge_usage_lines_lost_total', 'worker_died'), count('edge_usage_lost_tokens_total', 'p', 'r')]).toEqual([2, 11])
})
