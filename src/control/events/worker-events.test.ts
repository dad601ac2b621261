import { pino } from 'pino'
import { expect, test } from 'vitest'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { EventTap, type PublishedEvent } from '../../telemetry/events/published-events.ts'
import { MetricMemory, newMetricBuffer } from '../../telemetry/metrics/metric-memory.ts'
import { ControlLink } from '../control-link.ts'
import { EventWatch } from './event-hub.ts'
import { WorkerEvents } from './worker-events.ts'

/** A worker's events without a main thread: what it sends is kept here. */
function worker() {
  const clock = new ManualClock()
  const eventWatch = new SharedArrayBuffer(4)
  const sent: PublishedEvent[] = []
  const tap = new EventTap({ write() {} }, 'silent')
  const logger = pino({ level: tap.level }, tap)
  const events = new WorkerEvents({
    worker: 1,
    eventWatch,
    tap,
    control: new ControlLink(() => {}),
    send: (message) => void (message.type === 'events' && sent.push(...message.events)),
    metricMemory: new MetricMemory(newMetricBuffer(2), 1),
    logger,
    clock,
  })
  const log = (name: string, times: number): void => {
    for (let i = 0; i < times; i++) logger.info({ event: name, i }, 'x')
  }
  const sentNow = (): PublishedEvent[] => {
    events.flush()
    return sent.splice(0)
  }
  return { clock, watch: new EventWatch(eventWatch), log, sentNow }
}

test('while nobody watches, a worker sends a few events of each name in a second, and says where it stops', () => {
  const { clock, log, sentNow } = worker()
  log('reject', 100)
  log('override_set', 1)
  const first = sentNow()
  expect(first.map(({ name }) => name)).toEqual([...Array<string>(20).fill('reject'), 'override_set'])
  expect(first.map(({ isLastForNow }) => isLastForNow ?? false)).toEqual([...Array<boolean>(19).fill(false), true, false])
  clock.advance(999)
  log('reject', 1)
  expect(sentNow()).toEqual([])
  clock.advance(1)
  log('reject', 3)
  expect(sentNow()).toHaveLength(3)
})

test('problems are always sent, and everything is while somebody watches', () => {
  const { watch, log, sentNow } = worker()
  log('redis_unavailable', 100)
  expect(sentNow()).toHaveLength(100)
  watch.isOn = true
  log('reject', 100)
  expect(sentNow()).toHaveLength(100)
})
