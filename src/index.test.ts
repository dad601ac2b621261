import { describe, expect, test } from 'vitest'
import { bucketRule, budgetRule, bundle, llmRule, policy } from '../test/support/bundles/bundles.ts'
import { ManualClock } from '../test/support/service/manual-clock.ts'
import { type BudgetWarning, createEngine, type PlainDescriptor } from './index.ts'

const REQUEST = { method: 'GET', uri: '/api', headers: { 'X-Key': 'ann' } }
const NAME = { policy: 'p', rule: 'r', values: { 'header:x-key': 'ann' } }

describe('a cost', () => {
  test('is what the request takes in place of one', () => {
    const engine = newEngine()
    expect(engine.decide(REQUEST, { cost: 4 })).toMatchObject({ action: 'allow', limit: { remaining: 6 } })
    expect(engine.decide(REQUEST, { cost: 7 })).toMatchObject({ action: 'reject', requested: 7, available: 6, canRetry: true })
    expect(engine.decide(REQUEST, { cost: 11 })).toMatchObject({ action: 'reject', canRetry: false })
    expect(engine.decide(REQUEST, {})).toMatchObject({ limit: { remaining: 5 } })
  })

  test('of 0 takes nothing, however little is left', () => {
    const engine = newEngine()
    engine.decide(REQUEST, { cost: 10 })
    expect(engine.decide(REQUEST, { cost: 0 })).toMatchObject({ action: 'allow', limit: { remaining: 0 } })
  })

  test.each([-1, Number.NaN, Number.POSITIVE_INFINITY, '3'])('of %s is refused, and nothing is taken', (cost) => {
    const engine = newEngine()
    const options = { cost: cost as number }
    expect(() => engine.decide(REQUEST, options)).toThrow(/^cost: expected a finite number of at least 0, got /)
    expect(() => engine.explain(REQUEST, options)).toThrow(RangeError)
    expect(engine.decide(REQUEST, { cost: 0 })).toMatchObject({ limit: { remaining: 10 } })
  })
})

describe('a call of the rate limit service', () => {
  const rules = [bucketRule('user', ['descriptor:user'], 10), bucketRule('pair', ['descriptor:path', 'descriptor:path#2'], 10)]
  const BUNDLE = bundle(1, policy('p', { selector: { domain: 'd' }, rules }))
  const newLimits = () => {
    const engine = createEngine({ storeBytes: 64 * 1024, clock: new ManualClock() })
    engine.load(JSON.stringify(BUNDLE))
    const ask = (...descriptors: PlainDescriptor[]) => engine.decideDescriptors({ domain: 'd', descriptors })
    return { engine, ask }
  }

  test('takes for all descriptors or for none, with one hit unless it says another number', () => {
    const { ask } = newLimits()
    const path = [
      ['path', 'a'],
      ['path', 'b'],
    ] as const
    const both = ask({ entries: { user: 'ann' } }, { entries: path, hits: 4 })
    expect(both).toMatchObject({ decision: { action: 'allow' }, statuses: [{ remaining: 9 }, { rule: { name: 'pair' }, remaining: 6 }] })
    const { decision, statuses } = ask({ entries: { user: 'ann' } }, { entries: path, hits: 7 })
    expect([decision.action, statuses.map(({ isOver }) => isOver)]).toEqual(['reject', [false, true]])
    expect(ask({ entries: { user: 'ann' }, hits: 0 })).toMatchObject({ statuses: [{ remaining: 9 }] })
    expect(ask({ entries: { user: 'ann' }, hits: 2, isGivenBack: true })).toMatchObject({ statuses: [{ remaining: 10 }] })
    expect(path[0]).toEqual(['path', 'a'])
  })

  test('with hits that cannot be taken, or an ambiguous entry, is refused', () => {
    const { ask } = newLimits()
    for (const hits of [-1, Number.NaN, '3'])
      expect(() => ask({ entries: { user: 'ann' }, hits: hits as number })).toThrow(/^hits: expected a finite number of at least 0, got /)
    const ambiguous = [
      ['a', 'x'],
      ['a', 'y'],
      ['a#2', 'z'],
    ] as const
    expect(() => ask({ entries: ambiguous })).toThrow(RangeError)
    expect(ask({ entries: { user: 'ann' }, hits: 0 })).toMatchObject({ statuses: [{ remaining: 10 }] })
  })

  test('without a bundle is not decided', () => {
    expect(createEngine({ storeBytes: 64 * 1024 }).decideDescriptors({ domain: 'd', descriptors: [] })).toEqual({
      decision: { action: 'refuse', reason: 'no_bundle_loaded' },
      statuses: [],
    })
  })
})

test('an explanation takes nothing and has the descriptor values', () => {
  const engine = newEngine()
  for (let i = 0; i < 2; i++) {
    const { decision, policies } = engine.explain(REQUEST, { cost: 3 })
    expect(decision).toMatchObject({ action: 'allow', limit: { remaining: 7 }, descriptors: [{ key: 'header:x-key', value: 'ann' }] })
    expect(policies).toMatchObject([
      { why: undefined, rules: [{ cost: 3, counters: [{ remaining: 10 }] }] },
      { why: 'path', rules: [] },
    ])
  }
  expect(createEngine({ storeBytes: 64 * 1024 }).explain(REQUEST)).toEqual({
    decision: { action: 'refuse', reason: 'no_bundle_loaded' },
    policies: [],
  })
})

test('counters are looked up and reset by their name', () => {
  const engine = newEngine()
  engine.decide(REQUEST, { cost: 4 })
  expect(engine.counters(NAME)).toMatchObject({ ok: true, counters: [{ kind: 'bucket', limit: 10, remaining: 6, resetMs: 4000 }] })
  expect(engine.reset(NAME)).toMatchObject({ ok: true, counters: [{ remaining: 10, resetMs: 0 }] })
  expect(engine.decide(REQUEST)).toMatchObject({ limit: { remaining: 9 } })
  expect(engine.counters({ ...NAME, values: {} })).toEqual({ ok: false, error: 'wrong_values' })
  expect(engine.reset({ ...NAME, policy: 'q' })).toEqual({ ok: false, error: 'unknown_policy' })
})

function newEngine() {
  const engine = createEngine({ storeBytes: 64 * 1024, clock: new ManualClock() })
  const policies = [
    policy('p', { rules: [bucketRule('r', ['header:x-key'], 10, 1)] }),
    policy('tokens', { selector: { pathPrefix: '/v1' }, rules: [llmRule('budget', [], { tokens_per_day: 5000 })] }),
  ]
  if (!engine.load(JSON.stringify(bundle(1, ...policies))).ok) throw new Error('bad bundle')
  return engine
}

describe('a budget of money', () => {
  const rules = [budgetRule('r', ['header:x-key'], { budget: 2.5, cost: { header: 'x-cost', default: 0.1 }, warn_at_percent: [80] })]
  const text = JSON.stringify(bundle(1, policy('p', { rules })))

  test('takes the cost of the call in units of the currency, and shows hundredths everywhere', () => {
    const engine = createEngine({ storeBytes: 1024 * 1024, clock: new ManualClock() })
    engine.load(text)
    expect(engine.decide(REQUEST, { cost: 1.255 })).toMatchObject({ limit: { limitText: '250', remaining: 124 } })
    expect(engine.explain(REQUEST, { cost: 0.005 }).policies).toMatchObject([
      { rules: [{ cost: 0.5, counters: [{ kind: 'budget', limit: 250, level: 124.5, remaining: 124 }] }] },
    ])
    expect(engine.counters(NAME)).toMatchObject({ counters: [{ kind: 'budget', limit: 250, level: 124.5, remaining: 124 }] })
    expect(engine.decide(REQUEST, { cost: 1.2451 })).toMatchObject({
      action: 'reject',
      reason: 'budget_exceeded',
      requested: 124.51,
      available: 124.5,
    })
    expect(engine.reset(NAME)).toMatchObject({ counters: [{ level: 250 }] })
  })

  test('tells its embedder when it is nearly spent, and explanations do not', () => {
    const warned: unknown[] = []
    const onBudgetWarning = ({ rule, values, percent }: BudgetWarning) => warned.push([rule.name, values, percent])
    const engine = createEngine({ storeBytes: 1024 * 1024, clock: new ManualClock(), onBudgetWarning })
    engine.load(text)
    engine.explain(REQUEST, { cost: 2 })
    engine.decide(REQUEST, { cost: 1.9 })
    engine.decide(REQUEST, { cost: 0 })
    expect(warned).toEqual([])
    engine.decide(REQUEST, { cost: 0.1 })
    engine.decide(REQUEST, { cost: 0.1 })
    expect(warned).toEqual([['r', ['ann'], 80]])
  })
})

describe('a caller', () => {
  const CALLERS = JSON.stringify({
    ...bundle(1, policy('p', { rules: [bucketRule('r', ['caller:team'], 1)] })),
    callers: { mode: 'enforce', keys: {} },
  })

  test.each([
    [{}, 'caller.id: expected a text'],
    [{ id: '' }, 'caller.id: expected a text'],
    [{ id: 7, labels: { team: 'blue' } }, 'caller.id: expected a text'],
    ['ada', 'caller.id: expected a text'],
    [{ id: 'ada', labels: { team: 7 } }, 'caller.labels.team: expected a text'],
    [{ id: 'ada', labels: { team: '' } }, 'caller.labels.team: expected a text'],
    [{ id: 'ada', labels: { team: undefined } }, 'caller.labels.team: expected a text'],
    [{ id: 'ada', labels: new Map([['team', 'blue']]) }, 'caller.labels: expected an object of texts, not a Map'],
  ])('that is %j is refused: without a value for its keys, a rule would limit nobody', (caller, message) => {
    const engine = createEngine({ storeBytes: 1 << 20 })
    engine.load(CALLERS)
    const options = { caller: caller as never }
    expect(() => engine.decide(REQUEST, options)).toThrow(new TypeError(message))
    expect(() => engine.explain(REQUEST, options)).toThrow(new TypeError(message))
  })

  test('that is null is nobody', () => {
    const engine = createEngine({ storeBytes: 1 << 20 })
    engine.load(CALLERS)
    expect(engine.decide(REQUEST, { caller: null as never })).toMatchObject({ action: 'refuse', reason: 'unknown_caller' })
  })
})
