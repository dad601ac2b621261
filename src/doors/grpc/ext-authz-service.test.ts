import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../../test/support/bundles/bundles.ts'
import { checkRequest } from '../../../test/support/grpc/ext-authz.ts'
import { serializerOf } from '../../../test/support/grpc/js-client.ts'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../../test/support/store/async-store.ts'
import { MapStore } from '../../../test/support/store/map-store.ts'
import { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import { Engine } from '../../engine/engine.ts'
import { compileBundle } from '../../policy/compile.ts'
import { parseBundle } from '../../policy/parse.ts'
import type { CounterStore } from '../../store/counter-store.ts'
import { DecisionMetrics, QuestionMetrics } from '../../telemetry/metrics/decision-metrics.ts'
import { MetricMemory, newMetricBuffer } from '../../telemetry/metrics/metric-memory.ts'
import { ExtAuthzCheck } from './ext-authz-service.ts'
import type { GrpcReply } from './grpc-method.ts'

const serialize = serializerOf('ext_authz.proto', 'envoy.service.auth.v3.Authorization', 'Check')
const CALL = { isOver: false }
const RULES = bundle(
  1,
  policy('p', { rules: [bucketRule('each', ['header:x-key'], 1)] }),
  policy('later', { mode: 'shadow', rules: [bucketRule('each', ['header:x-late'], 1)] }),
)

function message(key: string, late = key): Buffer {
  return Buffer.from(serialize(checkRequest({ headers: { 'x-key': key, 'x-late': late } })))
}

describe('a call', () => {
  test('is answered at once where the store answers at once', () => {
    const { check } = serving(new MapStore())
    expect([codeOf(check.handle(message('a'), CALL)), codeOf(check.handle(message('a'), CALL))]).toEqual([0, 8])
  })

  test('keeps what it asks about while a store is slow, whatever becomes of the bytes', async () => {
    const store = new AsyncStore()
    const { check, memory } = serving(store)
    const keys = Array.from({ length: 100 }, (_, i) => `key ${i}`)
    const replies = keys.map((key) => {
      const bytes = message(key, 'the same')
      const reply = check.handle(bytes, CALL)
      bytes.fill(0xff)
      return reply
    })
    await store.answerAll((count) => count - 1)
    expect((await Promise.all(replies)).map(codeOf)).toEqual(keys.map(() => 0))
    const wouldReject = memory.entriesOf('edge_would_reject_total').map(({ cell }) => memory.sum(cell))
    expect(wouldReject).toEqual([99])
  })

  test('that is over takes nothing', () => {
    const { check } = serving(new MapStore())
    expect(check.handle(message('a'), { isOver: true })).toMatchObject({ status: 4, message: undefined })
    expect(codeOf(check.handle(message('a'), CALL))).toBe(0)
  })

  test('with a malformed message takes nothing, is counted, and does no harm to the next', () => {
    const { check, memory } = serving(new MapStore())
    const whole = message('a')
    expect(check.handle(whole.subarray(0, -1), CALL)).toEqual({ status: 13, statusMessage: 'a field is cut short', message: undefined })
    expect(codeOf(check.handle(whole, CALL))).toBe(0)
    const refused = memory.entriesOf('edge_questions_total').filter(({ values }) => values.includes('refuse'))
    expect(refused.map(({ values, cell }) => [values[0], memory.sum(cell)])).toContainEqual(['ext_authz_grpc', 1])
  })

  test.each(['throws', 'rejects'])('fails with status 14 where the store %s', async (how) => {
    const store = new MapStore()
    store.takeAll = (): never => {
      if (how === 'throws') throw new Error('broken')
      return Promise.reject(new Error('broken')) as never
    }
    const reply = await serving(store).check.handle(message('a'), CALL)
    expect(reply).toEqual({ status: 14, statusMessage: 'internal_error', message: undefined })
  })
})

function serving(store: CounterStore): { readonly check: ExtAuthzCheck; readonly memory: MetricMemory } {
  const clock = new ManualClock()
  const engine = new Engine({ store, clock })
  const parsed = parseBundle(JSON.stringify(RULES), 'json')
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  engine.activate(compileBundle(parsed.bundle))
  const memory = new MetricMemory(newMetricBuffer(2), 1)
  const [metrics, questions] = [new DecisionMetrics(memory), new QuestionMetrics(memory)]
  const logger = pino({ level: 'silent' })
  const pipeline = new DecisionPipeline({ engine, clock, logger, metrics, questions, debugSessions: undefined, gateway: undefined })
  return { check: new ExtAuthzCheck(pipeline), memory }
}

/** Of `CheckResponse.status`: an allowed one is empty. */
function codeOf(reply: GrpcReply | Promise<GrpcReply>): number {
  const { status, message: bytes } = reply as GrpcReply
  expect(status).toBe(0)
  const [field, length, , code] = bytes!
  expect(field).toBe((1 << 3) | 2)
  return length === 0 ? 0 : code!
}
