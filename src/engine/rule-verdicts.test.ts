import { describe, expect, test } from 'vitest'
import {
  blockRule,
  bucketRule,
  bundle,
  llmRule,
  matching,
  type PolicyText,
  policy,
  unlimitedRule,
} from '../../test/support/bundles/bundles.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../test/support/store/async-store.ts'
import { AMBIGUOUS } from '../costs/cost.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import type { PlanRule } from '../policy/plan.ts'
import { type PlainRequest, PlainRequestView } from '../request/view.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import type { Decision } from './decision.ts'
import { Engine } from './engine.ts'
import type { Explanation } from './explain/explanation.ts'

type Headers = NonNullable<PlainRequest['headers']>

const TIERS = policy('tiers', {
  rules: [
    unlimitedRule('staff', { 'header:x-plan': 'staff' }),
    matching({ 'header:x-plan': ['pro', 'team-*'] }, bucketRule('pro', ['header:x-key'], 100)),
    matching({ 'header:x-plan': 'pro', 'header:x-key': 'acme' }, bucketRule('acme', [], 50)),
    matching('else', bucketRule('others', [], 10)),
    bucketRule('all', [], 1000),
  ],
})

describe('a rule with a match', () => {
  test.each<[string, Headers, string[]]>([
    ['applies where the value is the text', { 'x-plan': 'pro', 'x-key': 'a' }, ['pro', 'all']],
    ['or begins with the prefix', { 'x-plan': 'team-red', 'x-key': 'a' }, ['pro', 'all']],
    ['which may be all of it', { 'x-plan': 'team-', 'x-key': 'a' }, ['pro', 'all']],
    ['not where the text only begins the value', { 'x-plan': 'pro2', 'x-key': 'a' }, ['others', 'all']],
    ['nor in another case', { 'x-plan': 'Pro', 'x-key': 'a' }, ['others', 'all']],
    ['only where all keys match', { 'x-plan': 'pro', 'x-key': 'acme' }, ['pro', 'acme', 'all']],
    ['not where the key is missing', { 'x-key': 'acme' }, ['others', 'all']],
    ['nor where it is empty', { 'x-plan': '', 'x-key': 'acme' }, ['others', 'all']],
    ['else applies too where the matching rule lacks its limit key', { 'x-plan': 'pro' }, ['others', 'all']],
    ['unlimited counts as one that applies', { 'x-plan': 'staff' }, ['staff', 'all']],
  ])('%s', (_, headers, applied) => {
    expect(appliedTo(engineOn([TIERS]), headers)).toEqual(applied)
  })

  test('else is judged after the others and charged at its place: the first of two equal rejects is its own', () => {
    const rules = [
      matching('else', bucketRule('others', [], 1)),
      matching({ 'header:x-plan': 'pro' }, bucketRule('pro', [], 1)),
      bucketRule('all', [], 1),
    ]
    const { decide } = engineOn([policy('p', { rules })])
    decide({})
    expect(decide({})).toMatchObject({ action: 'reject', rule: { name: 'others' } })
  })

  test('each key that is missing is reported once, and those of rules that do not match are not read', () => {
    const rules = [
      matching({ 'header:x-plan': 'pro', 'header:x-region': 'eu' }, bucketRule('a', ['header:x-key'], 1)),
      matching({ 'header:x-plan': 'team' }, bucketRule('b', ['header:x-team'], 1)),
      matching({ 'header:x-zone': 'z' }, bucketRule('c', ['header:x-plan'], 1)),
    ]
    const { decide } = engineOn([policy('p', { rules })])
    expect(decide({})).toMatchObject({ missingKeys: ['header:x-plan', 'header:x-region', 'header:x-zone'] })
    expect(decide({ 'x-plan': 'team' })).toMatchObject({ missingKeys: ['header:x-region', 'header:x-team', 'header:x-zone'] })
    const twice = { 'x-key': ['a', 'b'], 'x-plan': 'none' }
    expect(decide(twice)).toMatchObject({ action: 'allow', missingKeys: ['header:x-region', 'header:x-zone'] })
  })

  test('a repeated field is refused where an enforcing rule matches by it, whatever its other keys say', () => {
    const rules = [matching({ 'header:x-plan': 'pro', 'header:x-region': 'eu' }, bucketRule('a', [], 1))]
    const { decide } = engineOn([policy('p', { rules })])
    expect(decide({ 'x-plan': 'free', 'x-region': ['eu', 'us'] })).toEqual({ action: 'refuse', reason: 'repeated_descriptor' })
    expect(decide({ 'x-plan': ['pro', 'pro'] })).toEqual({ action: 'refuse', reason: 'repeated_descriptor' })
  })

  test('in shadow such a field leaves the whole policy out, else included', () => {
    const rules = [matching({ 'header:x-plan': 'pro' }, bucketRule('pro', [], 1)), matching('else', bucketRule('others', [], 1))]
    const { decide } = engineOn([policy('s', { mode: 'shadow', rules: [...rules, bucketRule('all', [], 1)] })])
    for (let i = 0; i < 3; i++)
      expect(decide({ 'x-plan': ['pro', 'free'] })).toMatchObject({ action: 'allow', wouldRejects: [], missingKeys: [] })
    expect(decide({})).toMatchObject({ wouldRejects: [] })
    expect(decide({})).toMatchObject({ wouldRejects: [{ reason: 'token_bucket_exceeded' }] })
  })

  test('a limit key that is repeated matters only where the rule matches', () => {
    const rules = [matching({ 'header:x-plan': 'pro' }, bucketRule('pro', ['header:x-key'], 1))]
    for (const mode of ['enforce', 'shadow']) {
      const { decide } = engineOn([policy('p', { mode, rules: [...rules, bucketRule('all', [], 1)] })])
      expect(decide({ 'x-plan': 'free', 'x-key': ['a', 'b'] }).action).toBe('allow')
      expect(decide({ 'x-plan': 'free' })).toMatchObject(mode === 'enforce' ? { action: 'reject' } : { wouldRejects: [{}] })
      expect(decide({ 'x-plan': 'pro', 'x-key': ['a', 'b'] })).toMatchObject(
        mode === 'enforce' ? { action: 'refuse' } : { wouldRejects: [] },
      )
    }
  })

  test('the descriptors of a decision are those of the match too', () => {
    const { engine } = engineOn([TIERS])
    const decision = engine.decide(viewOf({ 'x-plan': 'pro', 'x-key': 'a' }), { withDescriptors: true })
    expect(decision).toMatchObject({
      descriptors: [
        { key: 'header:x-plan', value: 'pro' },
        { key: 'header:x-key', value: 'a' },
      ],
    })
  })

  test('addresses are matched in the form that callers are counted by', () => {
    const rules = [
      matching({ 'ip:address': ['2001:db8::1', '192.0.2.7', '2001:db8:5:5::/64', '198.51.*'] }, bucketRule('known', [], 9)),
      matching('else', bucketRule('others', [], 9)),
    ]
    const engine = engineOn([policy('p', { rules })])
    const from = (address: string) => appliedTo(engine, { 'x-forwarded-for': address })[0]
    expect(['2001:db8::2', '::ffff:192.0.2.7', '2001:db8:5:5:6::', '198.51.100.4'].map(from)).toEqual(Array(4).fill('known'))
    expect(['2001:db8:0:1::1', '192.0.2.77', '198.5.1.1'].map(from)).toEqual(Array(3).fill('others'))
  })
})

describe('unlimited', () => {
  test('leaves no RateLimit fields where nothing else applied', () => {
    const { decide } = engineOn([
      policy('p', { rules: [unlimitedRule('u', { 'header:x-plan': 'a' }), matching('else', bucketRule('o', [], 1))] }),
    ])
    for (let i = 0; i < 3; i++) {
      expect(decide({ 'x-plan': 'a' })).toMatchObject({ action: 'allow', reason: 'all_rules_passed', limit: undefined, rule: undefined })
    }
    expect(decide({})).toMatchObject({ action: 'allow', limit: { remaining: 0 } })
    expect(decide({})).toMatchObject({ action: 'reject' })
  })
})

describe('a block', () => {
  const ACME = { 'x-org': 'acme' }
  const BLOCK = blockRule('acme', { 'header:x-org': 'acme' })

  test('rejects whom it matches, takes nothing and asks no store', () => {
    const store = new FailingStore()
    const { decide } = engineOn([policy('p', { rules: [bucketRule('all', [], 1), BLOCK] })], store)
    expect(decide(ACME)).toMatchObject({ action: 'reject', reason: 'blocked', limit: undefined, canRetry: false, rule: { name: 'acme' } })
    expect(() => decide({})).toThrow('the store was asked')
  })

  test('is decided before repeated fields, even those of other policies, and after a missing host', () => {
    const { decide } = engineOn([
      policy('keyed', { rules: [bucketRule('r', ['header:x-key'], 1)] }),
      policy('hosts', { selector: { hosts: ['a.test'], pathPrefix: '/hosts' }, rules: [] }),
      policy('p', { rules: [BLOCK] }),
    ])
    expect(decide({ ...ACME, 'x-key': ['a', 'b'] })).toMatchObject({ reason: 'blocked' })
    expect(decide({ 'x-key': ['a', 'b'] })).toMatchObject({ reason: 'repeated_descriptor' })
    expect(decide({ 'x-org': ['acme', 'b'] })).toMatchObject({ reason: 'repeated_descriptor' })
    expect(decide(ACME, '/hosts')).toMatchObject({ reason: 'missing_original_host' })
  })

  test('with match: else is an allowlist', () => {
    const rules = [unlimitedRule('known', { 'header:x-org': ['acme', 'umbrella'] }), blockRule('strangers', 'else')]
    const { decide } = engineOn([policy('p', { rules })])
    expect([ACME, { 'x-org': 'umbrella' }, { 'x-org': 'eve' }, {}].map((headers) => decide(headers).reason)).toEqual([
      'all_rules_passed',
      'all_rules_passed',
      'blocked',
      'blocked',
    ])
  })

  test('without a match covers all that its policy covers', () => {
    const { decide } = engineOn([policy('p', { selector: { pathPrefix: '/old' }, rules: [blockRule('gone')] })])
    expect([decide({}, '/old/x').reason, decide({}, '/new').reason]).toEqual(['blocked', 'all_rules_passed'])
  })

  test('covers nobody from its end on, and counts as not applied', () => {
    const until = blockRule('acme', { 'header:x-org': 'acme' }, { expires_at: '2026-01-15T13:00:01+01:00' })
    const { decide, clock } = engineOn([policy('p', { rules: [until, matching('else', bucketRule('others', [], 1))] })])
    clock.advance(999)
    expect(decide(ACME)).toMatchObject({ reason: 'blocked' })
    clock.advance(1)
    expect(decide(ACME)).toMatchObject({ action: 'allow', rule: { name: 'others' } })
  })

  test('reads nothing from its end on: a repeated field is no reason to refuse, and a missing one is not reported', () => {
    const over = blockRule('acme', { 'header:x-org': 'acme' }, { expires_at: '2026-01-15T12:00:00Z' })
    const { decide } = engineOn([policy('p', { rules: [over, bucketRule('all', [], 9)] })])
    expect(decide({ 'x-org': ['acme', 'b'] })).toMatchObject({ action: 'allow', limit: { remaining: 8 } })
    expect(decide({})).toMatchObject({ action: 'allow', missingKeys: [] })
    const { engine } = engineOn([policy('s', { mode: 'shadow', rules: [over, llmRule('tokens', [], { tokens_per_minute: 9000 })] })])
    const evaluation = engine.open(viewOf({ 'x-org': ['acme', 'b'] }))!
    expect(evaluation.needsBody()).toBe('may')
    expect(evaluation.precheck()).toBeUndefined()
    expect(evaluation.decide({ body: bodyOf('m') })).toMatchObject({ action: 'allow' })
  })

  test('in shadow is a would-reject, and nothing of its policy is taken', () => {
    const shadow = policy('s', { mode: 'shadow', rules: [bucketRule('all', [], 1), BLOCK] })
    const { decide } = engineOn([shadow])
    for (let i = 0; i < 3; i++) {
      expect(decide(ACME)).toMatchObject({
        action: 'allow',
        reason: 'blocked',
        wouldRejects: [{ rule: { name: 'acme' }, reason: 'blocked' }],
      })
    }
    expect(decide({})).toMatchObject({ wouldRejects: [] })
  })

  test('of several shadow policies would-rejects come in bundle order, also from a store that is asked over a network', async () => {
    const store = new AsyncStore()
    const { engine } = engineOn(
      [
        policy('one', { mode: 'shadow', rules: [bucketRule('r', [], 1)] }),
        policy('two', { mode: 'shadow', rules: [BLOCK] }),
        policy('three', { mode: 'shadow', rules: [bucketRule('r', [], 1)] }),
      ],
      store,
    )
    const outcomes = []
    for (let i = 0; i < 2; i++) {
      const decision = engine.decide(viewOf(ACME))
      await store.answerAll()
      outcomes.push(await decision)
    }
    expect(outcomes.map((decision) => 'wouldRejects' in decision && decision.wouldRejects.map(({ rule }) => rule.policy.id))).toEqual([
      ['two'],
      ['one', 'two', 'three'],
    ])
  })

  test('keeps a body from being read', () => {
    const budget = llmRule('budget', [], { tokens_per_minute: 100 })
    const { engine } = engineOn([policy('p', { rules: [budget, BLOCK] })], new FailingStore())
    expect(engine.open(viewOf({}))!.needsBody()).toBe('must')
    const blocked = engine.open(viewOf(ACME))!
    expect(blocked.needsBody()).toBe('no')
    expect(blocked.precheck()).toMatchObject({ reason: 'blocked' })
  })
})

describe('a body is needed', () => {
  const budget = llmRule('budget', [], { tokens_per_minute: 100 })
  const needOf = (rules: readonly object[], headers: Headers) =>
    engineOn([policy('p', { rules })])
      .engine.open(viewOf(headers))!
      .needsBody()

  test('only by rules that match', () => {
    const rules = [matching({ 'header:x-plan': 'pro' }, budget), matching('else', bucketRule('others', [], 1))]
    expect([needOf(rules, { 'x-plan': 'pro' }), needOf(rules, { 'x-plan': 'free' }), needOf(rules, {})]).toEqual(['must', 'no', 'no'])
  })

  test('by an else that applies', () => {
    const rules = [unlimitedRule('staff', { 'header:x-plan': 'staff' }), matching('else', budget)]
    expect([needOf(rules, { 'x-plan': 'staff' }), needOf(rules, {})]).toEqual(['no', 'must'])
  })
})

describe('a match on llm:model', () => {
  const MODELS = [
    blockRule('old', { 'llm:model': 'gpt-3*' }),
    matching({ 'llm:model': 'gpt-5*', 'header:x-plan': 'pro' }, bucketRule('large', ['header:x-key'], 5)),
    matching('else', bucketRule('others', [], 1)),
    bucketRule('all', [], 100),
  ]
  const PRO = { 'x-plan': 'pro', 'x-key': 'a' }

  test('is undecided before the body is read: neither missing nor blocked, and else is not checked', () => {
    const { engine, decide } = engineOn([policy('p', { rules: MODELS })])
    decide({}) // takes what others have
    const evaluation = engine.open(viewOf(PRO))!
    expect(evaluation.needsBody()).toBe('must')
    expect(evaluation.precheck()).toBeUndefined()
    expect(evaluation.decide({ body: bodyOf('gpt-5') })).toMatchObject({ action: 'allow', rule: { name: 'large' }, missingKeys: [] })
    const other = engine.open(viewOf(PRO))!
    expect([other.needsBody(), other.precheck()]).toEqual(['must', undefined])
    expect(other.decide({ body: bodyOf('llama') })).toMatchObject({ action: 'reject', rule: { name: 'others' } })
    const old = engine.open(viewOf(PRO))!
    expect([old.needsBody(), old.precheck()]).toEqual(['must', undefined])
    expect(old.decide({ body: bodyOf('gpt-3.5') })).toMatchObject({ action: 'reject', reason: 'blocked', rule: { name: 'old' } })
  })

  test('asks for no body where the head alone says that the rule does not apply', () => {
    const { engine } = engineOn([policy('p', { rules: MODELS.slice(1) })])
    for (const headers of [{ 'x-key': 'a' }, { 'x-plan': 'free', 'x-key': 'a' }, { 'x-plan': 'pro' }]) {
      expect(engine.open(viewOf(headers))!.needsBody()).toBe('no')
    }
    const evaluation = engine.open(viewOf({}))!
    evaluation.needsBody()
    expect(evaluation.decide()).toMatchObject({ rule: { name: 'others' }, missingKeys: ['header:x-plan'] })
  })

  test('is missing where there is no body to be read, as in decision_service', () => {
    const { decide } = engineOn([policy('p', { rules: MODELS })])
    expect(decide(PRO)).toMatchObject({ action: 'allow', rule: { name: 'others' }, missingKeys: ['llm:model'] })
  })

  test('a body that names two models is refused, and leaves a shadow policy out', () => {
    const body = 'repeated_descriptor'
    expect(engineOn([policy('p', { rules: MODELS })]).engine.decide(viewOf(PRO), { body })).toEqual({ action: 'refuse', reason: body })
    const { engine } = engineOn([policy('s', { mode: 'shadow', rules: [...MODELS.slice(0, 1), bucketRule('r', [], 1)] })])
    for (let i = 0; i < 2; i++)
      expect(engine.decide(viewOf(PRO), { body })).toMatchObject({ action: 'allow', wouldRejects: [], missingKeys: [] })
  })

  test('in shadow the body may be read for it', () => {
    const { engine } = engineOn([policy('s', { mode: 'shadow', rules: MODELS.slice(0, 1) })])
    expect(engine.open(viewOf(PRO))!.needsBody()).toBe('may')
  })
})

describe('a cost that two readers could understand differently', () => {
  const ambiguous = { needsBody: false, isLeasable: false, of: () => AMBIGUOUS, settling: undefined }

  test.each([
    ['a plain policy', (rule: object) => rule],
    ['a policy with a match', (rule: object) => matching({ 'header:x-plan': 'pro' }, rule)],
  ])('of %s is refused where it enforces, and leaves it out in shadow', (_, written) => {
    const outcomes = ['enforce', 'shadow'].map((mode) => {
      const { engine, decide } = engineOn([
        policy('p', { mode, rules: [bucketRule('all', ['header:x-key'], 1), written(bucketRule('r', [], 1))] }),
      ])
      const rules = engine.plan!.policies[0]!.rules as PlanRule[]
      rules[1] = { ...rules[1]!, cost: ambiguous }
      return [decide({ 'x-plan': 'pro', 'x-key': 'a' }), decide({ 'x-plan': 'pro', 'x-key': 'a' }), decide({ 'x-plan': 'pro' })]
    })
    expect(outcomes[0]).toEqual(Array(3).fill({ action: 'refuse', reason: 'repeated_descriptor' }))
    for (const decision of outcomes[1]!) expect(decision).toMatchObject({ action: 'allow', wouldRejects: [], missingKeys: [] })
  })

  test('does not matter where the rule does not match', () => {
    const { engine, decide } = engineOn([
      policy('p', { rules: [matching({ 'header:x-plan': 'pro' }, bucketRule('r', [], 1)), bucketRule('all', [], 1)] }),
    ])
    const rules = engine.plan!.policies[0]!.rules as PlanRule[]
    rules[0] = { ...rules[0]!, cost: ambiguous }
    expect(decide({})).toMatchObject({ action: 'allow', rule: { name: 'all' } })
  })
})

describe('an explanation', () => {
  test('says of each rule whether it matches, by which values, and what blocks', () => {
    const engine = engineOn([
      policy('p', {
        selector: { exceptPaths: ['/health'] },
        rules: [
          blockRule('acme', { 'header:x-org': 'acme' }),
          matching({ 'header:x-plan': 'pro' }, bucketRule('pro', ['header:x-key'], 5)),
          matching('else', bucketRule('others', [], 3)),
        ],
      }),
    ])
    const explained = (headers: Headers, uri = '/') => {
      const { decision, policies } = engine.engine.explain(viewOf(headers, uri)) as Explanation
      return [decision.reason, policies[0]!.why, ...policies[0]!.rules.map(({ rule, why }) => `${rule.name}: ${why ?? 'applies'}`)]
    }
    expect(explained({})).toEqual(['all_rules_passed', undefined, 'acme: no_match', 'pro: no_match', 'others: applies'])
    expect(explained({ 'x-plan': 'pro' })).toEqual([
      'all_rules_passed',
      undefined,
      'acme: no_match',
      'pro: missing_descriptor',
      'others: applies',
    ])
    expect(explained({ 'x-plan': 'pro', 'x-key': 'a', 'x-org': 'acme' })).toEqual([
      'blocked',
      undefined,
      'acme: applies',
      'pro: applies',
      'others: no_match',
    ])
    expect(explained({ 'x-plan': ['a', 'b'] })).toEqual([
      'repeated_descriptor',
      undefined,
      'acme: no_match',
      'pro: repeated_descriptor',
      'others: applies',
    ])
    expect(explained({}, '/health/live')).toEqual(['all_rules_passed', 'except_path'])
  })

  test('agrees with the decision on a block: other rules are not looked at', () => {
    const { engine, decide } = engineOn([policy('p', { rules: [bucketRule('all', ['header:x-key'], 1), blockRule('gone')] })])
    expect((engine.explain(viewOf({})) as Explanation).decision).toEqual(decide({}))
  })

  test('agrees with the decision on a shadow block', () => {
    const { engine, decide } = engineOn([policy('s', { mode: 'shadow', rules: [bucketRule('all', [], 1), blockRule('gone')] })])
    const { decision } = engine.explain(viewOf({})) as Explanation
    expect(decision).toMatchObject({ action: 'allow', reason: 'blocked', wouldRejects: [{ rule: { name: 'gone' } }] })
    expect(decide({}).reason).toBe(decision.reason)
  })
})

class FailingStore implements CounterStore {
  readonly #store = newEmbeddedStore(256 * 1024)
  readonly open = this.#store.open.bind(this.#store)
  readonly stats = this.#store.stats.bind(this.#store)
  readonly takeAll = fail
  readonly checkAll = fail
  readonly settleAll = fail
  readonly renewAll = fail
  readonly locatorsOf = fail
  readonly settleLocated = fail
  readonly renewLocated = fail
  readonly resetAll = fail
}

function fail(): never {
  throw new Error('the store was asked')
}

function engineOn(policies: readonly PolicyText[], store: CounterStore = newEmbeddedStore(256 * 1024)) {
  const clock = new ManualClock()
  const engine = new Engine({ store, clock })
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  engine.activate(compileBundle(parsed.bundle))
  return { engine, clock, decide: (headers: Headers, uri = '/') => engine.decide(viewOf(headers, uri)) as Decision }
}

function appliedTo({ engine }: { engine: Engine }, headers: Headers): string[] {
  const { policies } = engine.explain(viewOf(headers)) as Explanation
  return policies[0]!.rules.filter(({ why }) => why === undefined).map(({ rule }) => rule.name)
}

function bodyOf(model: string) {
  return { promptTokens: 1, requestedTokens: 1, choices: 1, isStream: false, model }
}

function viewOf(headers: Headers, uri = '/'): PlainRequestView {
  return new PlainRequestView({ method: 'GET', uri, headers })
}
