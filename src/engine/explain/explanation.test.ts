import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, type PolicyText, policy } from '../../../test/support/bundles/bundles.ts'
import { runs } from '../../../test/support/run/property-runs.ts'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../../test/support/store/async-store.ts'
import { compileBundle } from '../../policy/compile.ts'
import { parseBundle } from '../../policy/parse.ts'
import { type PlainRequest, PlainRequestView } from '../../request/view.ts'
import type { CounterStore } from '../../store/counter-store.ts'
import { newEmbeddedStore } from '../../store/table/embedded-store.ts'
import type { OpenOptions } from '../decide-options.ts'
import type { Decision } from '../decision.ts'
import { Engine } from '../engine.ts'
import type { Explanation } from './explanation.ts'

const BODY = { promptTokens: 10, requestedTokens: 20, choices: 1, isStream: false, model: undefined }

describe('an explanation', () => {
  test('names every policy of the bundle, and why it does not cover the request', () => {
    const service = newService(
      policy('all', { rules: [] }),
      policy('path', { selector: { pathPrefix: '/elsewhere', methods: ['GET'] }, rules: [bucketRule('r', [], 1)] }),
      policy('method', { selector: { pathPrefix: '/api', methods: ['GET'] }, rules: [bucketRule('r', [], 1)] }),
      policy('host', { mode: 'shadow', selector: { hosts: ['b.test'] }, rules: [bucketRule('r', [], 1)] }),
      policy('here', { selector: { pathPrefix: '/api', methods: ['post'], hosts: ['*.test'] }, rules: [bucketRule('r', [], 1)] }),
    )
    const { policies } = service.explain({ uri: '/api/x', host: 'a.test' })
    expect(policies.map(({ policy: { id }, why, rules }) => [id, why, rules.length])).toEqual([
      ['all', undefined, 0],
      ['path', 'path', 0],
      ['method', 'method', 0],
      ['host', 'host', 0],
      ['here', undefined, 1],
    ])
  })

  test('tells of each rule what it takes, whom it is keyed by and how its counters stand before that', () => {
    const budget = { tokens_per_minute: 600, tokens_per_day: 9000, max_completion_tokens: 200 }
    const service = newService(policy('p', { rules: [bucketRule('r', ['header:x-key'], 4, 0.5), llmRule('budget', [], budget)] }))
    service.decide({ uri: '/v1/chat', headers: { 'x-key': 'a' } })
    service.clock.advance(1000)
    const { policies } = service.explain({ uri: '/v1/chat', headers: { 'x-key': 'a' } })
    const untilMidnightMs = 86_400_000 - (service.clock.wallMs() % 86_400_000)
    expect(policies[0]!.rules).toEqual([
      {
        rule: expect.objectContaining({ name: 'r' }),
        why: undefined,
        cost: 1,
        descriptors: [{ key: 'header:x-key', value: 'a' }],
        counters: [{ kind: 'bucket', limit: 4, level: 3.5, remaining: 3, resetMs: 1000, waitMs: 0 }],
      },
      {
        rule: expect.objectContaining({ name: 'budget' }),
        why: undefined,
        cost: 200,
        descriptors: [],
        counters: [
          { kind: 'minute', limit: 600, level: 410, remaining: 410, resetMs: 19_000, waitMs: 0 },
          { kind: 'day', limit: 9000, level: 8800, remaining: 8800, resetMs: untilMidnightMs, waitMs: 0 },
        ],
      },
    ])
  })

  test('goes by the body and by the number that is given', () => {
    const service = newService(policy('p', { rules: [bucketRule('r', [], 4, 0.5), llmRule('budget', [], { tokens_per_minute: 600 })] }))
    const explanation = service.engine.explain(viewOf({ uri: '/v1/chat' }), { given: 9, body: BODY }) as Explanation
    expect(explanation.policies[0]!.rules.map(({ cost }) => cost)).toEqual([9, 30])
    expect(explanation.policies[0]!.rules[0]!.counters[0]!.waitMs).toBe(Number.POSITIVE_INFINITY)
    expect(explanation.decision).toMatchObject({ action: 'reject', canRetry: false, requested: 9, reservation: undefined })
  })

  test('says why a rule does not apply', () => {
    const rules = [bucketRule('missing', ['header:x-key', 'header:x-team'], 4), bucketRule('all', [], 4)]
    const { policies, decision } = newService(policy('p', { rules })).explain({ uri: '/', headers: { 'x-key': 'a' } })
    const descriptors = [
      { key: 'header:x-key', value: 'a' },
      { key: 'header:x-team', value: undefined },
    ]
    expect(policies[0]!.rules).toMatchObject([
      { why: 'missing_descriptor', descriptors, counters: [] },
      { why: undefined, counters: [{ level: 4 }] },
    ])
    expect(decision).toMatchObject({ action: 'allow', missingKeys: ['header:x-team'], limit: { rule: { name: 'all' }, remaining: 3 } })
  })

  test('of a field that comes twice: an enforcing rule refuses, a shadow policy is left out whole', () => {
    const rules = [bucketRule('keyed', ['header:x-key'], 4), bucketRule('all', [], 4)]
    const twice = { uri: '/', headers: { 'x-key': ['a', 'b'] } }
    const enforced = newService(policy('p', { rules })).explain(twice)
    expect(enforced.decision).toEqual({ action: 'refuse', reason: 'repeated_descriptor' })
    expect(enforced.policies[0]!.rules).toMatchObject([
      { why: 'repeated_descriptor', descriptors: [{ key: 'header:x-key', value: undefined }], counters: [] },
      { why: undefined, counters: [{ level: 4 }] },
    ])
    const shadow = newService(policy('s', { mode: 'shadow', rules })).explain(twice)
    expect(shadow.decision).toMatchObject({ action: 'allow', missingKeys: [] })
    expect(shadow.policies[0]!.rules.map(({ why }) => why)).toEqual(['repeated_descriptor', 'repeated_descriptor'])
  })

  test('of a request without a host that needs one', () => {
    const hosts = policy('h', { selector: { hosts: ['a.test'] }, rules: [bucketRule('r', [], 1)] })
    const { decision, policies } = newService(hosts, policy('p', { rules: [bucketRule('r', [], 1)] })).explain({ uri: '/' })
    expect(decision).toEqual({ action: 'refuse', reason: 'missing_original_host' })
    expect(policies).toMatchObject([{ why: 'host' }, { why: undefined, rules: [{ counters: [{ level: 1 }] }] }])
  })

  test('shows the counters of a shadow policy too where enforcement rejects', () => {
    const service = newService(
      policy('p', { rules: [bucketRule('r', [], 1)] }),
      policy('s', { mode: 'shadow', rules: [bucketRule('r', [], 3)] }),
    )
    service.decide({ uri: '/' })
    const { decision, policies } = service.explain({ uri: '/' })
    expect(decision).toMatchObject({ action: 'reject', wouldRejects: [] })
    expect(policies[1]!.rules[0]!.counters[0]!.level).toBe(2)
  })

  test('is short before there is a bundle', () => {
    const engine = new Engine({ store: newEmbeddedStore(64 * 1024), clock: new ManualClock() })
    expect(engine.explain(viewOf({ uri: '/' }))).toEqual({ decision: { action: 'refuse', reason: 'no_bundle_loaded' }, policies: [] })
  })

  test('has no counters where the store cannot tell', () => {
    const store = newEmbeddedStore(64 * 1024)
    const service = newServiceOn(
      Object.assign(store, { checkAll: () => 'unavailable' as const }),
      policy('p', { rules: [bucketRule('r', [], 1)] }),
    )
    const { decision, policies } = service.explain({ uri: '/' })
    expect(decision).toEqual({ action: 'refuse', reason: 'store_unavailable' })
    expect(policies[0]!.rules).toMatchObject([{ why: undefined, counters: [] }])
  })

  test('comes later from a store that answers later, and takes nothing there', async () => {
    const store = new AsyncStore()
    const service = newServiceOn(
      store,
      policy('p', { rules: [bucketRule('r', [], 5)] }),
      policy('s', { mode: 'shadow', rules: [bucketRule('r', [], 3)] }),
    )
    for (let i = 0; i < 2; i++) {
      const explained = service.engine.explain(viewOf({ uri: '/' }))
      expect(explained).toBeInstanceOf(Promise)
      await store.answerAll((count) => count - 1)
      const { policies, decision } = await explained
      expect(policies.map(({ rules }) => rules[0]!.counters[0]!.level)).toEqual([5, 3])
      expect(decision).toMatchObject({ action: 'allow', limit: { remaining: 4 } })
    }
  })

  test('names each of very many policies', () => {
    const others = Array.from({ length: 100 }, (_, i) =>
      policy(`other-${i}`, { selector: { pathPrefix: `/${i}` }, rules: [bucketRule('r', [], 1)] }),
    )
    const { policies } = newService(...others, policy('p', { rules: [bucketRule('r', [], 1)] })).explain({ uri: '/7/x' })
    expect(policies).toHaveLength(101)
    expect(policies.filter(({ why }) => why === undefined).map(({ policy: { id } }) => id)).toEqual(['other-7', 'p'])
  })
})

test('an explanation foretells the decision, and changes nothing', () => {
  const policies = [
    policy('everyone', { rules: [bucketRule('all', [], 12, 2)] }),
    policy('callers', {
      selector: { pathPrefix: '/api' },
      rules: [bucketRule('caller', ['header:x-key'], 3, 0.5), bucketRule('pair', ['header:x-key', 'header:x-team'], 2.5, 1)],
    }),
    policy('tokens', { selector: { pathPrefix: '/v1' }, rules: [llmRule('budget', [], { tokens_per_minute: 600, tokens_per_day: 900 })] }),
    policy('next', { mode: 'shadow', rules: [bucketRule('all', [], 5, 1), bucketRule('keyed', ['header:x-key'], 2, 1)] }),
    policy('hosted', { mode: 'shadow', selector: { hosts: ['a.test'] }, rules: [bucketRule('all', [], 3, 1)] }),
  ]
  const request = fc.record({
    uri: fc.constantFrom('/', '/api/x', '/v1/chat', '/v1/embeddings'),
    host: fc.constantFrom('', 'a.test'),
    headers: fc.record(
      { 'x-key': fc.constantFrom<string | string[]>('a', 'b', ['a', 'b']), 'x-team': fc.constantFrom('t', 'u') },
      { requiredKeys: [] },
    ),
    given: fc.constantFrom(0, 1, 2),
    gapMs: fc.constantFrom(0, 300, 2000),
  })
  fc.assert(
    fc.property(fc.array(request, { maxLength: 30 }), (requests) => {
      const [one, other] = [newService(...policies), newService(...policies)]
      for (const { given, gapMs, ...each } of requests) {
        const options = { given, withDescriptors: true }
        const { decision: foretold } = one.engine.explain(viewOf(each), options) as Explanation
        expect(told((one.engine.explain(viewOf(each), options) as Explanation).decision)).toEqual(told(foretold))
        const decided = one.decide(each, options)
        expect(told(foretold)).toEqual(told(decided))
        expect(told(decided)).toEqual(told(other.decide(each, options)))
        one.clock.advance(gapMs)
        other.clock.advance(gapMs)
      }
    }),
    { numRuns: runs(5) },
  )
})

/** Rules by their names: each service has a plan of its own. */
function told(decision: Decision): unknown {
  return JSON.parse(JSON.stringify(decision, nameOf))
}

// biome-ignore lint/suspicious/noExplicitAny: of any member of a decision
function nameOf(key: string, value: any): unknown {
  if (key === 'coveredBy') return value.map(({ id }: { id: string }) => id)
  return key === 'rule' || key === 'policy' ? (value?.id ?? value?.name) : value
}

function newService(...policies: readonly PolicyText[]) {
  return newServiceOn(newEmbeddedStore(256 * 1024), ...policies)
}

function newServiceOn(store: CounterStore, ...policies: readonly PolicyText[]) {
  const clock = new ManualClock()
  const engine = new Engine({ store, clock })
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  engine.activate(compileBundle(parsed.bundle))
  return {
    engine,
    clock,
    decide: (head: Head, options?: OpenOptions) => engine.decide(viewOf(head), options) as Decision,
    explain: (head: Head) => engine.explain(viewOf(head)) as Explanation,
  }
}

type Head = Omit<PlainRequest, 'method'>

function viewOf(head: Head): PlainRequestView {
  return new PlainRequestView({ method: 'POST', ...head })
}
