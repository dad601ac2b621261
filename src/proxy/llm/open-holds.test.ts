import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { bundle, concurrencyRule, policy } from '../../../test/support/bundles/bundles.ts'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../../test/support/store/async-store.ts'
import type { Allowed, Decision } from '../../engine/decision.ts'
import { Engine } from '../../engine/engine.ts'
import type { Inspection } from '../../engine/explain/inspection.ts'
import { compileBundle } from '../../policy/compile.ts'
import { parseBundle } from '../../policy/parse.ts'
import { PlainRequestView } from '../../request/view.ts'
import type { CounterStore } from '../../store/counter-store.ts'
import { newEmbeddedStore } from '../../store/table/embedded-store.ts'
import { HoldMetrics } from '../../telemetry/metrics/llm-metrics.ts'
import { MetricMemory, newMetricBuffer } from '../../telemetry/metrics/metric-memory.ts'
import { type HeldRequest, OpenHolds } from './open-holds.ts'

const HOLD_MS = 8000

test('what is under way keeps its holds, and what is over has released them, once', async () => {
  const service = newService(newEmbeddedStore(256 * 1024))
  const [first, second] = [await service.admit(), await service.admit()]
  for (let i = 0; i < 10; i++) await service.pass(HOLD_MS / 4)
  expect(await service.left()).toBe(1)
  expect(service.open()).toBe(2)
  first.release()
  first.release()
  expect(await service.left()).toBe(2)
  second.release()
  expect([await service.left(), service.open()]).toEqual([3, 0])
  expect(service.renewals()).toEqual({ renewed: 20 })
})

test('nothing is renewed before a quarter of its time is over', async () => {
  const service = newService(newEmbeddedStore(256 * 1024))
  await service.admit()
  await service.pass(HOLD_MS / 4 - 1)
  expect(service.renewals()).toEqual({})
  await service.pass(1)
  await service.pass(0)
  expect(service.renewals()).toEqual({ renewed: 1 })
})

test('a thread that was stuck for longer than holds last takes its places again, above the limit if need be', async () => {
  const service = newService(newEmbeddedStore(256 * 1024))
  const held = [await service.admit(), await service.admit()]
  service.clock.advance(2 * HOLD_MS)
  held.push(await service.admit(), await service.admit())
  await service.pass(0)
  expect(service.renewals()).toEqual({ late: 2 })
  expect(await service.left()).toBe(-1)
  for (const each of held) each.release()
  expect(await service.left()).toBe(3)
})

test('a request that ends while it is being renewed is released when that is done, from where it is then', async () => {
  const store = new AsyncStore()
  const service = newService(store)
  const admitted = service.admit()
  await store.answerAll()
  const held = await admitted
  service.clock.advance(HOLD_MS / 2)
  const renewing = service.holds.renewDue()
  expect(store.waiting).toBe(1)
  held.release()
  // Nothing more is asked of the store before it has answered.
  expect(store.waiting).toBe(1)
  await store.answer()
  expect(store.waiting).toBe(1)
  await store.answerAll()
  await renewing
  const left = service.left()
  await store.answerAll()
  expect(await left).toBe(3)
})

test('a renewal that fails is tried again when it is due again, and a release that fails is logged', async () => {
  const store = newEmbeddedStore(256 * 1024)
  let isBroken = false
  const failing: CounterStore = {
    open: (spec) => store.open(spec),
    takeAll: (...question) => store.takeAll(...question),
    checkAll: (charges, results, nowMs, wallMs) => store.checkAll(charges, results, nowMs, wallMs),
    settleAll: async (...question) => (isBroken ? Promise.reject(new Error('broken')) : store.settleAll(...question)),
    renewAll: (...question) => {
      if (isBroken) throw new Error('broken')
      return store.renewAll(...question)
    },
    locatorsOf: (...question) => store.locatorsOf(...question),
    settleLocated: (...question) => store.settleLocated(...question),
    renewLocated: (...question) => store.renewLocated(...question),
    resetAll: (...question) => store.resetAll(...question),
    stats: () => store.stats(),
  }
  const service = newService(failing)
  const [held, other] = [await service.admit(), await service.admit()]
  isBroken = true
  await service.pass(HOLD_MS / 4)
  other.release()
  await service.pass(0)
  isBroken = false
  await service.pass(HOLD_MS / 4)
  expect(service.renewals()).toEqual({ failed: 2, renewed: 1 })
  expect(service.lines.map(({ event, policy: id, rule }) => [event, id, rule])).toEqual([
    ['hold_not_renewed', 'p', 'c'],
    ['hold_not_renewed', 'p', 'c'],
    ['hold_not_released', 'p', 'c'],
  ])
  await service.pass(HOLD_MS / 2)
  expect(await service.left()).toBe(2)
  held.release()
})

test('thousands are renewed in batches, all of them', async () => {
  const service = newService(newEmbeddedStore(1024 * 1024), 5000)
  const held: HeldRequest[] = []
  for (let i = 0; i < 300; i++) held.push(await service.admit())
  await service.pass(HOLD_MS / 4)
  expect(service.renewals()).toEqual({ renewed: 300 })
  await service.pass(HOLD_MS - 1)
  expect(await service.left()).toBe(4700)
  for (const each of held) each.release()
  expect(await service.left()).toBe(5000)
})

function newService(store: CounterStore, max = 3) {
  const clock = new ManualClock()
  const engine = new Engine({ store, clock })
  const parsed = parseBundle(JSON.stringify(bundle(1, policy('p', { rules: [concurrencyRule('c', [], max, HOLD_MS / 1000)] }))))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  engine.activate(compileBundle(parsed.bundle))
  const lines: Record<string, unknown>[] = []
  const logger = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const memory = new MetricMemory(newMetricBuffer(2), 1)
  const holds = new OpenHolds({ engine, clock, logger, metrics: new HoldMetrics(memory) })
  const open: HeldRequest[] = []
  onTestFinished(() => {
    for (const held of open) held.release()
  })
  const sum = (name: string) => memory.entriesOf(name).map(({ values, cell }) => [values.join(), memory.sum(cell)] as const)
  return {
    clock,
    holds,
    lines,
    async admit(): Promise<HeldRequest> {
      const decision = (await engine.decide(new PlainRequestView({ method: 'GET', uri: '/' }))) as Decision
      expect(decision.action).toBe('allow')
      const held = holds.keep((decision as Allowed).reservation!.holds)
      open.push(held)
      return held
    },
    async pass(ms: number): Promise<void> {
      clock.advance(ms)
      await holds.renewDue()
    },
    async left(): Promise<number> {
      const inspection = (await engine.inspect({ policy: 'p', rule: 'c', values: {} })) as Inspection & { ok: true }
      return inspection.counters[0]!.level
    },
    open: (): number => sum('edge_proxy_open_holds')[0]![1],
    renewals: () => Object.fromEntries(sum('edge_hold_renewals_total')) as Record<string, number>,
  }
}
