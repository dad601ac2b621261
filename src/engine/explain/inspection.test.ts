import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, type PolicyText, policy } from '../../../test/support/bundles/bundles.ts'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../../test/support/store/async-store.ts'
import { compileBundle } from '../../policy/compile.ts'
import { parseBundle } from '../../policy/parse.ts'
import { PlainRequestView } from '../../request/view.ts'
import type { CounterStore } from '../../store/counter-store.ts'
import { newEmbeddedStore } from '../../store/table/embedded-store.ts'
import type { Allowed } from '../decision.ts'
import { Engine } from '../engine.ts'
import type { CounterName, Inspection } from './inspection.ts'

const POLICIES = [
  policy('p', {
    rules: [
      bucketRule('keyed', ['header:X-Key', 'header:x-team'], 4, 0.5),
      llmRule('budget', [], { tokens_per_minute: 600, tokens_per_day: 900, max_completion_tokens: 100 }),
      bucketRule('address', ['ip:address'], 3),
    ],
  }),
  policy('s', { mode: 'shadow', rules: [bucketRule('keyed', ['header:x-key'], 2)] }),
]
const HEADERS = { 'x-key': 'a', 'x-team': 't', 'x-forwarded-for': '2001:db8::7' }
const KEYED: CounterName = { policy: 'p', rule: 'keyed', values: { 'header:x-key': 'a', 'header:x-team': 't' } }

describe('counters are found', () => {
  test('by policy, rule and values, and are looked at without taking anything', () => {
    const service = newService()
    service.decide()
    for (let i = 0; i < 2; i++) expect(service.levels(KEYED)).toEqual([['bucket', 4, 3, 3, 2000]])
    expect(service.levels({ policy: 's', rule: 'keyed', values: { 'header:x-key': 'a' } })).toEqual([['bucket', 2, 1, 1, 1000]])
    const untilMidnightMs = 86_400_000 - (service.clock.wallMs() % 86_400_000)
    expect(service.levels({ policy: 'p', rule: 'budget', values: {} })).toEqual([
      ['minute', 600, 500, 500, 10_000],
      ['day', 900, 800, 800, untilMidnightMs],
    ])
    service.clock.advance(1000)
    expect(service.levels(KEYED)).toEqual([['bucket', 4, 3.5, 3, 1000]])
  })

  test('full where nothing was ever taken', () => {
    const other = { ...KEYED, values: { 'header:x-key': 'b', 'header:x-team': 't' } }
    expect(newService().levels(other)).toEqual([['bucket', 4, 4, 4, 0]])
  })

  test('in debt where more was used than there was', () => {
    const service = newService()
    const body = { promptTokens: 0, requestedTokens: 100, choices: 1, isStream: false, model: undefined }
    const { reservation } = service.decide(body) as Allowed
    service.engine.settle(reservation!.charges[0]!, 700)
    expect(service.levels({ policy: 'p', rule: 'budget', values: {} })[0]!.slice(0, 4)).toEqual(['minute', 600, -100, 0])
  })

  test('by the values of parameters, cookies and segments as they are read', () => {
    const rules = [bucketRule('parts', ['query:key', 'cookie:sid', 'path:2'], 4)]
    const service = newService()
    service.load(policy('p', { rules }))
    const uri = '/v1/%61cme?%6bey=a+b%C3%A9'
    service.engine.decide(new PlainRequestView({ method: 'GET', uri, headers: { cookie: 'x=1; sid="s"' } }))
    const values = { 'path:2': 'acme', 'cookie:sid': 's', 'query:key': 'a bé' }
    expect(service.levels({ policy: 'p', rule: 'parts', values })[0]![2]).toBe(3)
  })

  test('whatever the order and the spelling of the keys', () => {
    const service = newService()
    service.decide()
    expect(service.levels({ ...KEYED, values: { 'header:X-TEAM': 't', 'header:X-Key': 'a' } })[0]![2]).toBe(3)
  })

  test('by any address of the group that an address is counted in', () => {
    const service = newService()
    service.decide()
    for (const address of ['2001:db8::7', '2001:db8::ffff', '2001:db8:0:0::/64']) {
      expect(service.levels({ policy: 'p', rule: 'address', values: { 'ip:address': address } })[0]![2]).toBe(2)
    }
  })

  test('by the plan that is active', () => {
    const service = newService()
    service.load(policy('q', { rules: [bucketRule('r', [], 5)] }))
    expect(service.engine.inspect(KEYED)).toEqual({ ok: false, error: 'unknown_policy' })
    expect(service.levels({ policy: 'q', rule: 'r', values: {} })[0]![1]).toBe(5)
  })
})

describe('a name that is none', () => {
  const wrongValues: object[] = [
    {},
    [],
    { 'header:x-key': 'a' },
    { 'header:x-key': 'a', 'header:x-team': 't', 'header:x-other': 'o' },
    { 'header:x-key': 'a', 'header:x-other': 't' },
    { 'header:x-key': 'a', 'header:x-team': '' },
    { 'header:x-key': 'a', 'header:x-team': 7 },
    { 'header:x-key': 'a', 'header:x-team': ['t'] },
    { 'header:x-key': 'a', 'header:X-Key': 'b', 'header:x-team': 't' },
    Object.create({ 'header:x-key': 'a', 'header:x-team': 't' }) as object,
  ]

  test.each<[string, object]>([
    ['unknown_policy', { ...KEYED, policy: 'nobody' }],
    ['unknown_policy', { ...KEYED, policy: 'toString' }],
    ['unknown_rule', { ...KEYED, rule: 'nothing' }],
    ...wrongValues.map((values) => ['wrong_values', { ...KEYED, values }] as [string, object]),
    ['wrong_values', { policy: 'p', rule: 'budget', values: { 'header:x-key': 'a' } }],
  ])('is an error value, %s: %j', (error, name) => {
    const service = newService()
    service.decide()
    expect(service.engine.inspect(name as CounterName)).toEqual({ ok: false, error })
    expect(service.engine.reset(name as CounterName)).toEqual({ ok: false, error })
    expect(service.levels(KEYED)[0]![2]).toBe(3)
  })

  test.each([null, undefined, 'header:x-key', 7])('is one with %s for values, and does not throw', (values) => {
    const name = { policy: 'p', rule: 'keyed', values } as unknown as CounterName
    expect(newService().engine.inspect(name)).toEqual({ ok: false, error: 'wrong_values' })
  })

  test('is any, before there is a bundle', () => {
    const engine = new Engine({ store: newEmbeddedStore(64 * 1024), clock: new ManualClock() })
    expect(engine.inspect(KEYED)).toEqual({ ok: false, error: 'unknown_policy' })
    expect(engine.reset(KEYED)).toEqual({ ok: false, error: 'unknown_policy' })
  })
})

describe('a reset', () => {
  test('makes all counters of the rule full for this caller, and touches nobody else', () => {
    const service = newService()
    service.decide()
    service.decide(undefined, { ...HEADERS, 'x-key': 'b' })
    expect(service.engine.reset(KEYED)).toMatchObject({ ok: true, rule: { name: 'keyed' }, counters: [{ level: 4, resetMs: 0 }] })
    expect(service.levels({ ...KEYED, values: { 'header:x-key': 'b', 'header:x-team': 't' } })[0]![2]).toBe(3)
    expect(service.engine.reset({ policy: 'p', rule: 'budget', values: {} })).toMatchObject({
      counters: [
        { kind: 'minute', level: 600 },
        { kind: 'day', level: 900 },
      ],
    })
    expect(service.levels({ policy: 'p', rule: 'address', values: { 'ip:address': '2001:db8::' } })[0]![2]).toBe(1)
  })

  test('is not undone by what was reserved before it', () => {
    const service = newService()
    const body = { promptTokens: 0, requestedTokens: 100, choices: 1, isStream: false, model: undefined }
    const { reservation } = service.decide(body) as Allowed
    service.clock.advance(5)
    service.engine.reset({ policy: 'p', rule: 'budget', values: {} })
    service.clock.advance(5)
    service.engine.settle(reservation!.charges[0]!, 400)
    expect(service.levels({ policy: 'p', rule: 'budget', values: {} }).map((counter) => counter[2])).toEqual([600, 900])
  })

  test('is passed on where the store cannot do it', () => {
    const store = newEmbeddedStore(64 * 1024)
    const cannot = new Error('no room for the reset')
    store.resetAll = () => {
      throw cannot
    }
    expect(() => newService(store).engine.reset(KEYED)).toThrow(cannot)
  })
})

describe('a store that answers later', () => {
  test('is asked, and its word is waited for', async () => {
    const store = new AsyncStore()
    const { engine } = newService(store)
    const decided = engine.decide(new PlainRequestView({ method: 'GET', uri: '/', headers: HEADERS }))
    await store.answerAll()
    await decided
    const inspected = engine.inspect(KEYED)
    expect(inspected).toBeInstanceOf(Promise)
    await store.answerAll()
    expect(await inspected).toMatchObject({ ok: true, counters: [{ level: 3 }] })
    const reset = engine.reset(KEYED)
    await store.answerAll()
    expect(await reset).toMatchObject({ ok: true, counters: [{ level: 4 }] })
  })

  test('may not be able to tell', async () => {
    const store = newEmbeddedStore(64 * 1024)
    for (const outcome of ['unavailable' as const, Promise.resolve('unavailable' as const)]) {
      const { engine } = newService(Object.assign(store, { checkAll: () => outcome }))
      expect(await engine.inspect(KEYED)).toEqual({ ok: false, error: 'store_unavailable' })
    }
  })
})

type Body = NonNullable<NonNullable<Parameters<Engine['decide']>[1]>['body']>

function newService(store: CounterStore = newEmbeddedStore(64 * 1024)) {
  const clock = new ManualClock()
  const engine = new Engine({ store, clock })
  const service = {
    engine,
    clock,
    load(...policies: readonly PolicyText[]): void {
      const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
      if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
      engine.activate(compileBundle(parsed.bundle))
    },
    decide: (body?: Body, headers: Record<string, string> = HEADERS) =>
      engine.decide(new PlainRequestView({ method: 'POST', uri: '/v1/chat', headers }), { body }),
    /** Kind, limit, level, remaining and reset of each counter. */
    levels(name: CounterName): (string | number)[][] {
      const inspection = engine.inspect(name) as Inspection
      if (!inspection.ok) throw new Error(inspection.error)
      return inspection.counters.map(({ kind, limit, level, remaining, resetMs }) => [kind, limit, level, remaining, resetMs])
    },
  }
  service.load(...POLICIES)
  return service
}
