import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, type PolicyText, policy } from '../../test/support/bundles/bundles.ts'
import { runs } from '../../test/support/run/property-runs.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../test/support/store/async-store.ts'
import { MapStore } from '../../test/support/store/map-store.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import type { Plan } from '../policy/plan.ts'
import { type PlainRequest, PlainRequestView } from '../request/view.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import type { Decision } from './decision.ts'
import { Engine } from './engine.ts'

const POLICIES = [
  policy('everyone', { rules: [bucketRule('all', [], 12, 2)] }),
  policy('callers', {
    selector: { pathPrefix: '/api' },
    rules: [bucketRule('caller', ['header:x-key'], 3, 0.5), bucketRule('pair', ['header:x-key', 'header:x-team'], 2.5, 1)],
  }),
  policy('tokens', {
    selector: { pathPrefix: '/v1', methods: ['POST'] },
    rules: [llmRule('budget', ['header:x-key'], { tokens_per_minute: 600, tokens_per_day: 900, max_completion_tokens: 200 })],
  }),
  policy('next', { mode: 'shadow', rules: [bucketRule('all', [], 5, 1), bucketRule('keyed', ['header:x-key'], 2, 1)] }),
  policy('after next', { mode: 'shadow', rules: [bucketRule('all', [], 3, 1)] }),
]

const request = fc.record({
  method: fc.constantFrom('GET', 'POST'),
  uri: fc.constantFrom('/', '/api/x', '/v1/chat', '/v1/embeddings'),
  headers: fc.record({ 'x-key': fc.constantFrom('a', 'b'), 'x-team': fc.constantFrom('t', 'u') }, { requiredKeys: [] }),
})

/** Requests at one instant, and how long until the next. */
const batches = fc.array(fc.record({ requests: fc.array(request, { maxLength: 12 }), gapMs: fc.constantFrom(0, 300, 2000, 40_000_000) }), {
  maxLength: 8,
})

test('an embedded store and a Map decide the same', () => {
  fc.assert(
    fc.property(batches, (list) => {
      const [one, two] = [engineOn(newEmbeddedStore(256 * 1024)), engineOn(new MapStore())]
      for (const { requests, gapMs } of list) {
        for (const each of requests) expect(told(one.decide(each) as Decision)).toEqual(told(two.decide(each) as Decision))
        one.clock.advance(gapMs)
        two.clock.advance(gapMs)
      }
    }),
  )
})

test('times are told by the clock of the store that has decided', () => {
  const clock = new ManualClock()
  const store = new MapStore()
  const AHEAD_MS = 3_600_000
  // An hour ahead of ours, as a Redis may be.
  const ahead: CounterStore = {
    open: (spec) => store.open(spec),
    takeAll: (charges, results, nowMs, wallMs) => store.takeAll(charges, results, nowMs, wallMs + AHEAD_MS),
    checkAll: (charges, results, nowMs, wallMs) => store.checkAll(charges, results, nowMs, wallMs + AHEAD_MS),
    settleAll: (charges, taken, nowMs, wallMs) => store.settleAll(charges, taken, nowMs, wallMs + AHEAD_MS),
    locatorsOf: (...question) => store.locatorsOf(...question),
    settleLocated: (...question) => store.settleLocated(...question),
    renewLocated: (...question) => store.renewLocated(...question),
    renewAll: (charges, taken, nowMs, wallMs) => store.renewAll(charges, taken, nowMs, wallMs + AHEAD_MS),
    resetAll: (charges, nowMs, wallMs) => store.resetAll(charges, nowMs, wallMs + AHEAD_MS),
    stats: () => store.stats(),
  }
  const engine = new Engine({ clock, store: ahead })
  engine.activate(planOf([policy('p', { rules: [llmRule('r', [], { tokens_per_day: 900, max_completion_tokens: 500 })] })]))
  const untilMidnightMs = 86_400_000 - ((clock.wallMs() + AHEAD_MS) % 86_400_000)
  const view = new PlainRequestView({ method: 'POST', uri: '/v1/chat' })
  const [allowed, rejected] = [engine.decide(view), engine.decide(view)] as [Decision, Decision]
  expect([allowed, rejected]).toMatchObject([
    { action: 'allow', limit: { resetMs: untilMidnightMs } },
    { action: 'reject', limit: { resetMs: untilMidnightMs } },
  ])
  expect(engine.inspect({ policy: 'p', rule: 'r', values: {} })).toMatchObject({ counters: [{ resetMs: untilMidnightMs }] })
  expect(engine.explain(view)).toMatchObject({ policies: [{ rules: [{ counters: [{ resetMs: untilMidnightMs }] }] }] })
})

test('a store that answers later decides the same as one that answers at once, one request after the other', async () => {
  await fc.assert(
    fc.asyncProperty(batches, async (list) => {
      const store = new AsyncStore()
      const [sync, async] = [engineOn(new MapStore()), engineOn(store)]
      for (const { requests, gapMs } of list) {
        for (const each of requests) {
          const decision = async.decide(each)
          await store.answerAll()
          expect(told(await decision)).toEqual(told(sync.decide(each) as Decision))
        }
        sync.clock.advance(gapMs)
        async.clock.advance(gapMs)
      }
    }),
    { numRuns: runs(3) },
  )
})

test('decisions under way at the same time do not touch one another', async () => {
  await fc.assert(
    fc.asyncProperty(batches, async (list) => {
      const store = new AsyncStore()
      const [sync, async] = [engineOn(new MapStore()), engineOn(store)]
      for (const { requests, gapMs } of list) {
        const decisions = requests.map((each) => async.decide(each))
        await store.answerAll()
        const expected = requests.map((each) => told(sync.decide(each) as Decision))
        expect((await Promise.all(decisions)).map(told)).toEqual(expected)
        sync.clock.advance(gapMs)
        async.clock.advance(gapMs)
      }
    }),
    { numRuns: runs(3) },
  )
})

test('in whatever order the store answers, a limit lets as many through as it says, and keeps their answers apart', async () => {
  const policies = [
    policy('p', { rules: [bucketRule('r', ['header:x-key'], 3)] }),
    policy('s', { mode: 'shadow', rules: [bucketRule('r', ['header:x-key'], 2)] }),
  ]
  const keys = fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 20 })
  await fc.assert(
    fc.asyncProperty(keys, fc.infiniteStream(fc.nat()), async (callers, choices) => {
      const store = new AsyncStore()
      const { decide } = engineOn(store, policies)
      const decisions = callers.map((caller) => decide({ method: 'GET', uri: '/', headers: { 'x-key': caller } }))
      await store.answerAll((count) => choices.next().value % count)
      const answers = (await Promise.all(decisions)).map((decision, i) => ({ caller: callers[i], ...told(decision) }))
      for (const caller of new Set(callers)) {
        const mine = answers.filter((answer) => answer.caller === caller)
        const allowed = mine.filter(({ action }) => action === 'allow')
        expect(allowed).toHaveLength(Math.min(3, mine.length))
        expect(allowed.filter(({ wouldRejects }) => wouldRejects.length > 0)).toHaveLength(Math.max(0, allowed.length - 2))
        expect(mine.every(({ descriptors }) => descriptors[0]!.value === caller)).toBe(true)
      }
    }),
    { numRuns: runs(3) },
  )
})

describe('an engine', () => {
  test('has no answer before its first bundle', () => {
    const engine = new Engine({ store: new MapStore(), clock: new ManualClock() })
    expect(engine.decide(viewOf({ method: 'GET', uri: '/' }))).toEqual({ action: 'refuse', reason: 'no_bundle_loaded' })
  })

  test('answers at once where the store does, and where no store is asked', () => {
    expect(engineOn(newEmbeddedStore(64 * 1024)).decide({ method: 'GET', uri: '/' })).not.toBeInstanceOf(Promise)
    expect(engineOn(new AsyncStore(), []).decide({ method: 'GET', uri: '/' })).toMatchObject({ action: 'allow', matchedPolicies: 0 })
  })

  test('skips a rule that lacks one of its descriptors, and charges the next one to the right caller', () => {
    const rules = [bucketRule('pair', ['header:x-key', 'header:x-team'], 9), bucketRule('caller', ['header:x-key'], 3)]
    const { decide } = engineOn(newEmbeddedStore(64 * 1024), [policy('p', { rules })])
    const ask = (headers: Record<string, string>) => told(decide({ method: 'GET', uri: '/', headers }) as Decision)
    expect(ask({ 'x-key': 'a', 'x-team': 't' })).toMatchObject({ missingKeys: [], limit: { rule: 'p/caller', remaining: 2 } })
    expect(ask({ 'x-key': 'a' })).toMatchObject({ missingKeys: ['header:x-team'], limit: { rule: 'p/caller', remaining: 1 } })
    expect(ask({ 'x-team': 't' })).toMatchObject({ missingKeys: ['header:x-key'], limit: undefined })
  })

  test('describes a reject by the longest wait, and by the first in the bundle where two are as long', () => {
    const rules = [bucketRule('fast', [], 1, 10), bucketRule('slow', [], 1, 1), bucketRule('as slow', [], 1, 1)]
    const { decide } = engineOn(newEmbeddedStore(64 * 1024), [policy('p', { rules })])
    decide({ method: 'GET', uri: '/' })
    expect(told(decide({ method: 'GET', uri: '/' }) as Decision)).toMatchObject({ action: 'reject', rule: 'p/slow' })
  })

  test('asks a store that is far away about all shadow policies at once, and tells of them in bundle order', async () => {
    const store = new AsyncStore()
    const shadows = ['a', 'b', 'c'].map((id) => policy(id, { mode: 'shadow', rules: [bucketRule('r', [], 1)] }))
    const { decide } = engineOn(store, [shadows[0]!, policy('p', { rules: [bucketRule('r', [], 5)] }), ...shadows.slice(1)])
    const first = decide({ method: 'GET', uri: '/' })
    await store.answerAll()
    await first
    const second = decide({ method: 'GET', uri: '/' })
    expect(store.waiting).toBe(1)
    await store.answer()
    expect(store.waiting).toBe(3)
    await store.answerAll((count) => count - 1)
    expect(told(await second)).toMatchObject({ limit: { rule: 'p/r', remaining: 3 }, wouldRejects: ['a/r', 'b/r', 'c/r'] })
  })

  test('finishes a decision with the plan that it began with', async () => {
    const store = new AsyncStore()
    const { decide, engine } = engineOn(store, [
      policy('old', { rules: [bucketRule('r', [], 5)] }),
      policy('old shadow', { mode: 'shadow', rules: [bucketRule('r', [], 1)] }),
    ])
    const [first, second] = [decide({ method: 'GET', uri: '/' }), decide({ method: 'GET', uri: '/' })]
    engine.activate(planOf([policy('new', { rules: [bucketRule('r', [], 1)] })]))
    const third = decide({ method: 'GET', uri: '/' })
    await store.answerAll()
    expect(told(await first)).toMatchObject({ limit: { rule: 'old/r', remaining: 4 }, wouldRejects: [] })
    expect(told(await second)).toMatchObject({ limit: { rule: 'old/r', remaining: 3 }, wouldRejects: ['old shadow/r'] })
    expect(told(await third)).toMatchObject({ limit: { rule: 'new/r', remaining: 0 }, matchedPolicies: 1 })
  })

  test('passes on what broke in the store, and decides the next request as if nothing had happened', async () => {
    const store = new MapStore()
    let breaks = true
    const { decide } = engineOn({
      open: (spec) => store.open(spec),
      stats: () => store.stats(),
      checkAll: (charges, results, nowMs, wallMs) => store.checkAll(charges, results, nowMs, wallMs),
      settleAll: (...question) => store.settleAll(...question),
      locatorsOf: (...question) => store.locatorsOf(...question),
      settleLocated: (...question) => store.settleLocated(...question),
      renewLocated: (...question) => store.renewLocated(...question),
      renewAll: (...question) => store.renewAll(...question),
      resetAll: (...question) => store.resetAll(...question),
      takeAll: async (...question) => {
        if (breaks) throw new Error('connection lost')
        return store.takeAll(...question)
      },
    })
    await expect(decide({ method: 'GET', uri: '/' })).rejects.toThrow('connection lost')
    breaks = false
    expect(told(await decide({ method: 'GET', uri: '/' }))).toMatchObject({
      action: 'allow',
      limit: { rule: 'everyone/all', remaining: 11 },
    })
  })
})

interface Setup {
  readonly engine: Engine
  readonly clock: ManualClock
  readonly decide: (request: PlainRequest) => Decision | Promise<Decision>
}

function engineOn(store: CounterStore, policies: readonly PolicyText[] = POLICIES): Setup {
  const clock = new ManualClock()
  const engine = new Engine({ store, clock })
  engine.activate(planOf(policies))
  return { engine, clock, decide: (each) => engine.decide(viewOf(each), { withDescriptors: true }) }
}

function planOf(policies: readonly PolicyText[]): Plan {
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}

function viewOf(each: PlainRequest): PlainRequestView {
  return new PlainRequestView(each)
}

/** A decision without its ties to the plan. */
function told(decision: Decision) {
  if (decision.action === 'refuse') throw new Error(decision.reason)
  const { action, reason, canRetry, missingKeys, matchedPolicies, descriptors, wouldRejects } = decision
  const name = (rule: { name: string; policy: { id: string } } | undefined) => rule && `${rule.policy.id}/${rule.name}`
  // Stores may differ in the last bits of a wait.
  const limit = decision.limit && { ...decision.limit, rule: name(decision.limit.rule), resetMs: decision.limit.resetMs.toPrecision(12) }
  const rejects = wouldRejects.map(({ rule }) => name(rule))
  return { action, reason, canRetry, missingKeys, matchedPolicies, descriptors, limit, rule: name(decision.rule), wouldRejects: rejects }
}
