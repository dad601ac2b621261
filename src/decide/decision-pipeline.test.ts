import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { MapStore } from '../../test/support/store/map-store.ts'
import { Engine } from '../engine/engine.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import { PlainRequestView } from '../request/view.ts'
import { DecisionMetrics, QuestionMetrics } from '../telemetry/metrics/decision-metrics.ts'
import { MetricMemory, newMetricBuffer } from '../telemetry/metrics/metric-memory.ts'
import { DecisionPipeline } from './decision-pipeline.ts'
import { PendingDecision } from './pending-decision.ts'

const VIEW = new PlainRequestView({ method: 'GET', uri: '/', headers: { 'x-key': 'a' } })
const QUESTION = { door: 'decision' as const, original: () => VIEW, cookie: () => undefined, traceparent: () => undefined }
const FAILED = { status: 500, decision: undefined, refusal: 'internal_error' }

describe('a decision in one step and one in several', () => {
  test('get the same answer, and are counted and logged alike', async () => {
    const one = begin(new MapStore())
    const several = begin(new MapStore())
    for (let i = 0; i < 3; i++) {
      const pending = several.pipeline.open('proxy', VIEW, undefined) as PendingDecision
      expect(pending.needsBody()).toBe('no')
      const { decision } = (await one.pipeline.decide(QUESTION))!
      const other = (await pending.decide()).decision
      expect([other?.action, other?.reason, other?.limit?.remaining]).toEqual([
        decision?.action,
        decision?.reason,
        decision?.limit?.remaining,
      ])
    }
    expect(several.counts()).toEqual(one.counts())
    expect(one.counts()).toEqual([
      ['edge_decisions_total', ['allow', 'all_rules_passed', 'p', '/'], 2],
      ['edge_decisions_total', ['reject', 'token_bucket_exceeded', 'p', '/'], 1],
    ])
    expect(several.lines).toEqual(one.lines)
    expect(one.lines).toMatchObject([{ event: 'reject', policy: 'p', rule: 'r' }])
  })

  test('without a bundle are refused', () => {
    const { pipeline } = begin(new MapStore(), false)
    expect(pipeline.decide(QUESTION)).toMatchObject({ status: 503, refusal: 'no_bundle_loaded' })
    expect(pipeline.open('proxy', VIEW, undefined)).toMatchObject({ status: 503, refusal: 'no_bundle_loaded' })
  })
})

describe('whatever breaks becomes an answer, is counted as refused and logged with its cause', () => {
  const broken = new Error('broken')
  const throwing = (): never => {
    throw broken
  }
  const rejecting = (): Promise<never> => Promise.reject(broken)

  test.each([
    ['throws', throwing],
    ['rejects', rejecting],
  ])('the store %s', async (_how, fail) => {
    const { pipeline, lines, counts } = begin(Object.assign(new MapStore(), { takeAll: fail, checkAll: fail }))
    expect(await pipeline.decide(QUESTION)).toMatchObject(FAILED)
    expect(await (pipeline.open('proxy', VIEW, undefined) as PendingDecision).decide()).toMatchObject(FAILED)
    expect(await (pipeline.open('proxy', VIEW, undefined) as PendingDecision).decideWithBody(undefined)).toMatchObject(FAILED)
    expect(await (pipeline.open('proxy', VIEW, undefined) as PendingDecision).precheck()).toMatchObject(FAILED)
    expect(lines.filter(({ event }) => event === 'internal_error')).toHaveLength(4)
    expect(lines[0]).toMatchObject({ err: { message: 'broken' } })
    expect(counts()).toEqual([['edge_refused_requests_total', ['internal_error'], 4]])
  })

  test('the question or the view throws', async () => {
    const { pipeline, counts } = begin(new MapStore())
    const view = { ...VIEW, uri: '/', method: 'GET', host: '', header: throwing }
    expect(await pipeline.decide({ ...QUESTION, original: throwing, cookie: throwing })).toMatchObject(FAILED)
    expect(await pipeline.decide({ ...QUESTION, original: () => view, cookie: throwing })).toMatchObject(FAILED)
    const pending = pipeline.open('proxy', view, undefined) as PendingDecision
    expect(pending).toBeInstanceOf(PendingDecision)
    expect(await pending.decide()).toMatchObject(FAILED)
    expect(counts()).toEqual([['edge_refused_requests_total', ['internal_error'], 3]])
  })
})

interface Begun {
  readonly pipeline: DecisionPipeline
  readonly lines: Record<string, unknown>[]
  /** Of what was counted, histograms left out. */
  counts(): [name: string, values: readonly string[], count: number][]
}

function begin(store: MapStore, hasBundle = true): Begun {
  const clock = new ManualClock()
  const engine = new Engine({ store, clock })
  const parsed = parseBundle(JSON.stringify(BUNDLE), 'json')
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  if (hasBundle) engine.activate(compileBundle(parsed.bundle))
  const lines: Record<string, unknown>[] = []
  const logger = pino({ base: null, timestamp: false }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const memory = new MetricMemory(newMetricBuffer(2), 1)
  const pipeline = new DecisionPipeline({
    engine,
    clock,
    logger,
    metrics: new DecisionMetrics(memory),
    questions: new QuestionMetrics(memory),
    debugSessions: undefined,
    gateway: undefined,
  })
  const counts = (): ReturnType<Begun['counts']> => {
    const names = ['edge_decisions_total', 'edge_refused_requests_total']
    const all = names.flatMap((name) =>
      memory.entriesOf(name).map(({ values, cell }): [string, readonly string[], number] => [name, values, memory.sum(cell)]),
    )
    return all.filter(([, , count]) => count > 0)
  }
  return { pipeline, lines, counts }
}

const RULE = {
  name: 'r',
  algorithm: 'token_bucket',
  limit_keys: ['header:x-key'],
  algorithm_config: { tokens_per_second: 0.001, burst: 2 },
}
const BUNDLE = { bundle_version: 1, policies: [{ id: 'p', spec: { selector: {}, rules: [RULE] } }] }
