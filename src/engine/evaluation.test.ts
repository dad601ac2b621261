import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, jwt, llmRule, matching, type PolicyText, policy } from '../../test/support/bundles/bundles.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../test/support/store/async-store.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import { TrustedProxies } from '../request/client-address.ts'
import { type FieldValue, type PlainRequest, PlainRequestView, type RequestView } from '../request/view.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import type { Allowed } from './decision.ts'
import { Engine } from './engine.ts'
import type { Evaluation } from './evaluation.ts'

const TOKENS = { tokens_per_minute: 6000, max_completion_tokens: 200 }
const BODY = { promptTokens: 10, requestedTokens: 20, choices: 1, isStream: false, model: undefined }
const OVER = 'this evaluation is over, or a step of it is still pending'

describe('who sends a body', () => {
  const budget = (...keys: string[]): object => llmRule(keys.join(), keys, TOKENS)
  const policies = [
    policy('a', {
      selector: { pathPrefix: '/a' },
      rules: [budget('header:x-team', 'header:x-user'), bucketRule('b', ['header:x-other'], 9)],
    }),
    policy('b', {
      selector: { pathPrefix: '/b' },
      rules: [budget('header:x-user'), budget('header:x-team'), budget('header:x-user', 'header:x-team')],
    }),
    policy('c', {
      selector: { pathPrefix: '/c' },
      rules: [budget('llm:model'), matching({ 'header:x-other': 'x' }, budget('header:x-user'))],
    }),
    policy('s', { mode: 'shadow', rules: [budget('header:x-other')] }),
  ]
  const headers = { 'x-team': 't', 'x-user': 'u', 'x-other': 'o' }

  test.each([
    ['are those of the rules that need the body', '/a', ['header:x-team', 't', 'header:x-user', 'u']],
    ['are the same in whatever order and however often rules have them', '/b', ['header:x-team', 't', 'header:x-user', 'u']],
    ['are none where only the body says them', '/c', []],
    ['are those of shadow rules where no other needs the body', '/', ['header:x-other', 'o']],
  ])('the keys that say it %s', (_, uri, caller) => {
    const evaluation = newService(policies).open(viewOf({ uri, headers }))
    evaluation.needsBody()
    evaluation.precheck()
    expect(evaluation.bodyCaller()).toEqual(caller)
  })
})

describe('however many steps an evaluation has', () => {
  const keys = ['jwt:sub', 'jwt:team', 'ip:address', 'header:x-key']
  const policies = [
    policy('p', {
      selector: { pathPrefix: '/v1', hosts: ['a.test'] },
      rules: [bucketRule('r', keys, 50), llmRule('budget', keys, TOKENS)],
    }),
    policy('s', { mode: 'shadow', rules: [llmRule('budget', keys, TOKENS)] }),
  ]

  test('the request is routed once, and each of its fields is read once', () => {
    const { open } = newService(policies)
    const view = new CountingView({
      method: 'POST',
      uri: '/v1/chat',
      host: 'a.test',
      headers: { authorization: `Bearer ${jwt({ sub: 'ann', team: 't' })}`, 'x-forwarded-for': '203.0.113.7', 'x-key': 'k' },
    })
    const evaluation = open(view)
    const routed = { ...view.asked }
    expect(routed).toEqual({ uri: 1, method: 1, host: 1 })
    expect(evaluation.needsBody()).toBe('must')
    expect(evaluation.precheck()).toBeUndefined()
    expect(evaluation.decide({ body: BODY })).toMatchObject({ action: 'allow', matchedPolicies: 2, limit: { remaining: 49 } })
    expect(view.asked).toEqual({ ...routed, authorization: 1, 'x-forwarded-for': 1, 'x-key': 1 })
  })

  test('the decision is the one that a single step gives, missing keys and all', () => {
    const service = newService(policies)
    const other = newService(policies)
    for (const headers of [{ 'x-key': 'k' }, {}]) {
      const view = viewOf({ uri: '/v1/chat', host: 'a.test', headers })
      const evaluation = service.open(view)
      evaluation.needsBody()
      evaluation.precheck()
      const decision = evaluation.decide({ body: BODY })
      expect(decision).toEqual(other.engine.decide(view, { body: BODY }))
      expect((decision as Allowed).missingKeys).toEqual(keys.filter((key) => key !== 'header:x-key' || headers['x-key'] === undefined))
    }
  })

  test('what a shadow policy lacks is not held against a request that enforcement rejects', () => {
    const enforcing = policy('p', { rules: [bucketRule('r', [], 1, 1)] })
    const shadow = policy('s', { mode: 'shadow', rules: [llmRule('budget', ['header:x-key'], TOKENS)] })
    const { engine, open } = newService([enforcing, shadow])
    engine.decide(viewOf({ uri: '/' }))
    const evaluation = open(viewOf({ uri: '/' }))
    evaluation.needsBody()
    expect(evaluation.decide()).toMatchObject({ action: 'reject', missingKeys: [] })
  })

  test('a field that comes twice refuses where a rule enforces, and only there', () => {
    const llm = llmRule('budget', ['header:x-key'], TOKENS)
    const twice = viewOf({ uri: '/', headers: { 'x-key': ['a', 'b'] } })
    const inShadow = newService([policy('s', { mode: 'shadow', rules: [llm] }), policy('p', { rules: [bucketRule('r', [], 5)] })])
    const evaluation = inShadow.open(twice)
    expect(evaluation.needsBody()).toBe('no')
    expect(evaluation.precheck()).toBeUndefined()
    expect(evaluation.decide()).toMatchObject({ action: 'allow', limit: { remaining: 4 } })

    const enforced = newService([policy('p', { rules: [llm] })])
    expect(enforced.open(twice).needsBody()).toBe('no')
    expect(enforced.open(twice).precheck()).toEqual({ action: 'refuse', reason: 'repeated_descriptor' })
    expect(enforced.open(twice).decide()).toEqual({ action: 'refuse', reason: 'repeated_descriptor' })
    expect(enforced.open(viewOf({ uri: '/', headers: { 'x-key': 'a' } })).decide()).toMatchObject({ action: 'allow' })
  })
})

test('what will be refused needs no body, whatever else covers it', () => {
  const everyone = policy('everyone', { rules: [llmRule('budget', [], TOKENS)] })
  const keyed = newService([everyone, policy('p', { rules: [llmRule('budget', ['header:x-key'], TOKENS)] })])
  expect(keyed.open(viewOf({ uri: '/', headers: { 'x-key': ['a', 'b'] } })).needsBody()).toBe('no')
  expect(keyed.open(viewOf({ uri: '/', headers: { 'x-key': 'a' } })).needsBody()).toBe('must')
  const hosted = newService([everyone, policy('h', { selector: { hosts: ['a.test'] }, rules: [bucketRule('r', [], 1)] })])
  expect(hosted.open(viewOf({ uri: '/' })).needsBody()).toBe('no')
  expect(hosted.open(viewOf({ uri: '/', host: 'a.test' })).needsBody()).toBe('must')
})

describe('an evaluation', () => {
  const policies = [policy('p', { rules: [bucketRule('r', ['header:x-key'], 2, 1)] })]
  const view = viewOf({ uri: '/', headers: { 'x-key': 'a' } })

  test('takes at the time of its decision, not of its beginning', () => {
    const { engine, clock, open } = newService(policies)
    engine.decide(view)
    engine.decide(view)
    const evaluation = open(view)
    expect(evaluation.needsBody()).toBe('no')
    clock.advance(1000)
    expect(evaluation.precheck()).toBeUndefined()
    expect(evaluation.decide()).toMatchObject({ action: 'allow', limit: { remaining: 0 } })
    expect(open(view).decide({ nowMs: clock.nowMs() + 1000 })).toMatchObject({ action: 'allow' })
  })

  test('keeps the plan by which it was opened', () => {
    const { engine, load, open } = newService(policies)
    const evaluation = open(view)
    load([policy('q', { rules: [bucketRule('other', [], 9)] })])
    expect(evaluation.decide()).toMatchObject({ action: 'allow', rule: { name: 'r' } })
    expect(engine.decide(view)).toMatchObject({ rule: { name: 'other' } })
  })

  test('is over after its decision and after an objection, and cannot touch the requests that come after it', () => {
    const { open } = newService(policies)
    const decided = open(view)
    decided.decide()
    const next = open(viewOf({ uri: '/', headers: { 'x-key': 'b' } }))
    for (const step of ['needsBody', 'precheck', 'decide'] as const) expect(() => decided[step]()).toThrow(OVER)
    expect(next.decide()).toMatchObject({ action: 'allow', limit: { remaining: 1 } })

    open(view).decide()
    const objected = open(view)
    expect(objected.precheck()).toMatchObject({ action: 'reject' })
    expect(() => objected.decide()).toThrow(OVER)
  })

  test('takes one step at a time', async () => {
    const store = new AsyncStore()
    const evaluation = newService(policies, store).open(view)
    const objection = evaluation.precheck()
    expect(() => evaluation.decide()).toThrow(OVER)
    await store.answerAll()
    expect(await objection).toBeUndefined()
    const decision = evaluation.decide()
    expect(() => evaluation.decide()).toThrow(OVER)
    await store.answerAll()
    expect(await decision).toMatchObject({ action: 'allow' })
  })

  test('that is dropped after any step changes nothing for those that follow', () => {
    const { engine, open } = newService(policies)
    for (const steps of [0, 1, 2]) {
      const evaluation = open(view)
      if (steps > 0) evaluation.needsBody()
      if (steps > 1) evaluation.precheck()
    }
    expect(engine.decide(viewOf({ uri: '/' }))).toMatchObject({ action: 'allow', limit: undefined, missingKeys: ['header:x-key'] })
    expect(engine.decide(view)).toMatchObject({ action: 'allow', limit: { remaining: 1 } })
  })
})

describe('the number given with a question', () => {
  const policies = [policy('p', { rules: [bucketRule('r', [], 10, 1), llmRule('budget', [], { tokens_per_minute: 6000 })] })]

  test('is what rules that count requests take, and LLM rules do not', () => {
    const { engine, open } = newService(policies)
    expect(engine.decide(viewOf({ uri: '/v1/chat' }), { given: 4 })).toMatchObject({ limit: { rule: { name: 'r' }, remaining: 6 } })
    expect(open(viewOf({ uri: '/v1/embeddings' }), { given: 2.5 }).decide()).toMatchObject({ limit: { remaining: 3 } })
    expect(engine.decide(viewOf({ uri: '/v1/embeddings' }), { given: 4 })).toMatchObject({ action: 'reject', requested: 4, available: 3 })
    expect(engine.decide(viewOf({ uri: '/v1/chat' }), { given: 0 })).toMatchObject({ action: 'allow' })
    expect(engine.decide(viewOf({ uri: '/v1/embeddings' }))).toMatchObject({ limit: { remaining: 2 } })
  })

  test('is only asked about where it is 0', () => {
    const { engine } = newService(policies)
    for (let i = 0; i < 3; i++) {
      expect(engine.decide(viewOf({ uri: '/v1/embeddings' }), { given: 0 })).toMatchObject({ limit: { remaining: 10 } })
    }
  })

  test('is refused with a sentence where it is none, and nothing is taken', () => {
    const { engine, open } = newService(policies)
    for (const given of [-1, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => engine.decide(viewOf({ uri: '/v1/embeddings' }), { given })).toThrow(RangeError)
      expect(() => open(viewOf({ uri: '/v1/embeddings' }), { given })).toThrow(RangeError)
    }
    expect(engine.decide(viewOf({ uri: '/v1/embeddings' }), { given: 0 })).toMatchObject({ limit: { remaining: 10 } })
  })
})

/** Counts how often each part of a request is asked for. */
class CountingView implements RequestView {
  readonly asked: Record<string, number> = {}
  readonly #view: PlainRequestView

  constructor(request: PlainRequest) {
    this.#view = new PlainRequestView(request)
  }

  get method(): string {
    return this.#note('method', this.#view.method)
  }

  get uri(): string {
    return this.#note('uri', this.#view.uri)
  }

  get host(): string {
    return this.#note('host', this.#view.host)
  }

  header(name: string): FieldValue {
    return this.#note(name, this.#view.header(name))
  }

  #note<Value>(name: string, value: Value): Value {
    this.asked[name] = (this.asked[name] ?? 0) + 1
    return value
  }
}

function newService(policies: readonly PolicyText[], store: CounterStore = newEmbeddedStore(64 * 1024)) {
  const clock = new ManualClock()
  const engine = new Engine({ store, clock, identification: { trustedProxies: new TrustedProxies(), ipFacts: {} } })
  const load = (list: readonly PolicyText[]): void => {
    const parsed = parseBundle(JSON.stringify(bundle(1, ...list)))
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
    engine.activate(compileBundle(parsed.bundle))
  }
  load(policies)
  const open = (...args: Parameters<Engine['open']>): Evaluation => engine.open(...args)!
  return { engine, clock, load, open }
}

function viewOf(request: Omit<PlainRequest, 'method'>): PlainRequestView {
  return new PlainRequestView({ method: 'POST', ...request })
}
