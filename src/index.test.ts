import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { blockRule, bucketRule, budgetRule, bundle, llmRule, matching, policy } from '../test/support/bundles/bundles.ts'
import { ask } from '../test/support/service/http.ts'
import { ManualClock } from '../test/support/service/manual-clock.ts'
import { type BudgetWarning, createEngine, type EmbeddedEngine, formatProblem, type PlainDescriptor, type PlainRequest } from './index.ts'

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

describe('the address of a client', () => {
  const RULES = [bucketRule('by-address', ['ip:address'], 2, 1e-6)]
  const BUNDLE = JSON.stringify(bundle(1, policy('p', { rules: RULES })))
  const limiting = (trustedProxies?: string) => {
    const engine = createEngine({ storeBytes: 64 * 1024, clock: new ManualClock(), trustedProxies })
    return { engine, warnings: engine.load(BUNDLE).warnings }
  }
  /** What four requests get, each with another claim about who sent it. */
  const four = (engine: EmbeddedEngine, request: Partial<PlainRequest>, field = 'X-Forwarded-For') =>
    [1, 2, 3, 4].map((n) => engine.decide({ method: 'GET', uri: '/', ...request, headers: { [field]: `9.9.9.${n}` } }).action)
  const LIMITED = ['allow', 'allow', 'reject', 'reject']
  const UNLIMITED = ['allow', 'allow', 'allow', 'allow']

  test('is that of its peer, whatever the peer says about others', () => {
    const { engine } = limiting()
    expect(four(engine, { peer: '203.0.113.9' })).toEqual(LIMITED)
    // A server that listens on IPv6 sees IPv4 peers in their mapped form.
    expect(four(engine, { peer: '::ffff:203.0.113.9' })).toEqual(['reject', 'reject', 'reject', 'reject'])
    expect(four(engine, { peer: '203.0.113.10' }, 'Forwarded')).toEqual(LIMITED)
    expect(four(engine, { peer: '2001:db8::1' })).toEqual(LIMITED)
  })

  test('is what a trusted peer says, and only such a peer', () => {
    const { engine } = limiting('198.51.100.7')
    expect(four(engine, { peer: '198.51.100.7' })).toEqual(UNLIMITED)
    expect(four(engine, { peer: '198.51.100.7' })).toEqual(UNLIMITED)
    expect(four(engine, { peer: '198.51.100.7' })).toEqual(['reject', 'reject', 'reject', 'reject'])
    expect(four(engine, { peer: '127.0.0.1' })).toEqual(LIMITED)
  })

  test('is missing without a readable peer: a client may have written X-Forwarded-For itself', () => {
    const { engine } = limiting()
    for (const peer of [undefined, '', 'unix', '203.0.113.9, 203.0.113.10']) {
      expect(engine.decide({ method: 'GET', uri: '/', headers: { 'x-forwarded-for': '9.9.9.9' }, peer })).toMatchObject({
        action: 'allow',
        missingKeys: ['ip:address'],
      })
    }
  })

  test('is asked for by load where a rule needs it, until a request has had one', () => {
    const { engine, warnings } = limiting()
    expect(warnings.map(formatProblem)).toEqual([
      'policies[0].spec.rules[0]: without ip:address, which nothing provides, the rule never applies: pass the address of its connection with each request, such as peer: req.socket.remoteAddress',
    ])
    engine.decide({ method: 'GET', uri: '/', peer: '203.0.113.9' })
    expect(engine.load(BUNDLE).warnings).toEqual([])
    const byCountry = bundle(2, policy('p', { rules: [matching({ 'ip:country': 'DE' }, blockRule('de'))] }))
    expect(engine.load(JSON.stringify(byCountry)).warnings).toMatchObject([{ message: expect.stringContaining('pass ipFacts.countryOf') }])
  })

  test('and what no request here can have is warned of, where a rule needs it', () => {
    const engine = createEngine({ storeBytes: 65_536 })
    const rules = [bucketRule('c', ['context:team'], 1), matching({ 'llm:model': 'gpt-*' }, bucketRule('m', ['header:x-k'], 1))]
    const { warnings } = engine.load(JSON.stringify(bundle(1, policy('p', { rules }))))
    const never = warnings.map(formatProblem).filter((text) => text.includes('never applies'))
    expect(never).toEqual([
      'policies[0].spec.rules[0]: without context:team, which nothing provides, the rule never applies: only Envoy sends it, to decision_service',
      'policies[0].spec.rules[1]: without llm:model, which nothing provides, the rule never applies: the library sees no bodies: pass the model in a header field, and use that',
    ])
  })

  test('and the rest of a request are taken as node:http has them', async () => {
    const { engine } = limiting('198.51.100.7')
    const decided: string[] = []
    const server = createServer((req, res) => {
      const { method = '', url = '', headersDistinct, socket } = req
      const request: PlainRequest = { method, uri: url, host: req.headers.host, headers: headersDistinct, peer: socket.remoteAddress }
      decided.push(engine.decide(request).action)
      res.end()
    })
    await new Promise<void>((resolve) => server.listen(0, resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    for (let i = 0; i < 3; i++) await ask(port, 'GET', '/', [['X-Forwarded-For', `9.9.9.${i}`]])
    expect(decided).toEqual(['allow', 'allow', 'reject'])
  })
})
