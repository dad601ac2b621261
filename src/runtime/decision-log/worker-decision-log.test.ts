import { pino } from 'pino'
import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../../test/support/bundles/bundles.ts'
import { planOf } from '../../../test/support/bundles/compiled-rule.ts'
import { MapStore } from '../../../test/support/store/map-store.ts'
import type { FromWorker } from '../../control/thread-messages.ts'
import { DecisionLines } from '../../decision-log/decision-lines.ts'
import { Engine } from '../../engine/engine.ts'
import { TrustedProxies } from '../../request/client-address.ts'
import { PlainRequestView } from '../../request/view.ts'
import { CounterFamily } from '../../telemetry/metrics/metric-families.ts'
import { MetricMemory, newMetricBuffer } from '../../telemetry/metrics/metric-memory.ts'
import { systemClock } from '../../time/clock.ts'
import { WorkerDecisionLog } from './worker-decision-log.ts'

const REQUEST = new PlainRequestView({ method: 'GET', uri: `/${'x'.repeat(8000)}` })

function newLog(): { log: WorkerDecisionLog; sent: (FromWorker & { type: 'decision_lines' })[]; logged: string[]; dropped(): number } {
  const engine = new Engine({ store: new MapStore(), clock: systemClock })
  engine.activate(planOf(bundle(1, policy('p', { rules: [bucketRule('r', [], 1)] }))))
  const lines = new DecisionLines({ trustedProxies: new TrustedProxies(), callerDigest: () => '' })
  const metricMemory = new MetricMemory(newMetricBuffer(1), 0)
  const sent: (FromWorker & { type: 'decision_lines' })[] = []
  const send = (message: FromWorker): void => void sent.push(message as FromWorker & { type: 'decision_lines' })
  const logged: string[] = []
  const logger = pino({}, { write: (line: string) => void logged.push(line) })
  const log = new WorkerDecisionLog({ engine, clock: systemClock, logger, lines, metricMemory, send })
  const dropped = new CounterFamily(metricMemory, 'edge_decision_log_lines_total').series('dropped')
  return { log, sent, logged, dropped: () => dropped.count }
}

test('while the file is slow, a bounded number of lines waits; those beyond are dropped, counted and reported with the next batch', () => {
  const { log, sent, dropped } = newLog()
  log.note(REQUEST, undefined)
  log.flush()
  for (let i = 0; i < 1000; i++) log.note(REQUEST, undefined)
  expect(sent).toHaveLength(1)
  const waiting = 1000 - dropped()
  expect(waiting).toBeGreaterThan(200)
  expect(waiting * 8000).toBeLessThan(2 * 1024 * 1024)
  log.flush()
  expect(sent[1]!.lines.split('\n')).toHaveLength(waiting + 1)
  expect(sent[1]!.dropped).toBe(dropped())
})

test('a request that cannot be written down is not disturbed, and the log says why', () => {
  const { log, sent, logged } = newLog()
  const broken = new Proxy(REQUEST, {
    get() {
      throw new Error('broken')
    },
  })
  log.note(broken, undefined)
  log.note(broken, undefined)
  log.flush()
  expect(sent).toEqual([])
  expect(logged.map((line) => JSON.parse(line))).toMatchObject([{ event: 'internal_error', err: { message: 'broken' } }])
})
