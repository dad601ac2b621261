import { pino } from 'pino'
import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../../test/support/bundles/bundles.ts'
import { limitEngine } from '../../../test/support/rate-limit/limit-engine.ts'
import { MapStore } from '../../../test/support/store/map-store.ts'
import { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import { DecisionMetrics, QuestionMetrics } from '../../telemetry/metrics/decision-metrics.ts'
import { CounterFamily } from '../../telemetry/metrics/metric-families.ts'
import { MetricMemory, newMetricBuffer } from '../../telemetry/metrics/metric-memory.ts'
import { DEADLINE_EXCEEDED, type GrpcReply, INTERNAL, OK, type UnaryMethod } from './grpc-method.ts'
import { ProtobufWriter } from './protobuf-writer.ts'
import { rateLimitMethods } from './rate-limit-service.ts'

const BUNDLE = bundle(1, policy('p', { selector: { domain: 'd' }, rules: [bucketRule('r', ['descriptor:user'], 1)] }))

function serviceOn(store: MapStore): UnaryMethod {
  const { engine, clock } = limitEngine(BUNDLE, store)
  const memory = new MetricMemory(newMetricBuffer(2), 1)
  const pipeline = new DecisionPipeline({
    engine,
    clock,
    logger: pino({ level: 'silent' }),
    metrics: new DecisionMetrics(memory),
    questions: new QuestionMetrics(memory),
    debugSessions: undefined,
    gateway: undefined,
  })
  const ignored = new CounterFamily(memory, 'edge_rate_limit_ignored_limits_total').series()
  return rateLimitMethods(pipeline, ignored)[0] as UnaryMethod
}

function message(): Uint8Array {
  const writer = new ProtobufWriter()
  writer.text(1, 'd')
  const descriptor = writer.open(2)
  const entry = writer.open(1)
  writer.text(1, 'user')
  writer.text(2, 'a')
  writer.close(entry)
  writer.close(descriptor)
  return writer.finish()
}

test('a call that is over takes nothing', () => {
  const service = serviceOn(new MapStore())
  expect(service.handle(message(), { isOver: true })).toMatchObject({ status: DEADLINE_EXCEEDED })
  const reply = service.handle(message(), { isOver: false }) as GrpcReply
  // overall_code OK: what was left is there.
  expect([reply.status, ...reply.message!.subarray(0, 2)]).toEqual([OK, 8, 1])
})

test('a failure of our own is status 13, and the next call is served', () => {
  const store = new MapStore()
  const service = serviceOn(store)
  const { takeAll } = store
  store.takeAll = () => {
    throw new Error('broken')
  }
  expect(service.handle(message(), { isOver: false })).toMatchObject({ status: INTERNAL, statusMessage: 'internal_error' })
  store.takeAll = () => Promise.reject(new Error('broken later')) as never
  expect(service.handle(message(), { isOver: false })).toBeInstanceOf(Promise)
  store.takeAll = takeAll
  expect(service.handle(message(), { isOver: false })).toMatchObject({ status: OK })
})
