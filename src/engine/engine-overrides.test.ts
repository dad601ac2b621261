import { describe, expect, test } from 'vitest'
import {
  blockRule,
  bucketRule,
  budgetRule,
  concurrencyRule,
  llmRule,
  matching,
  type PolicyText,
  policy,
  windowRule,
} from '../../test/support/bundles/bundles.ts'
import {
  BLOCK,
  callerDigest,
  overriddenEngine,
  override,
  planOf,
  ruleOf,
  setOverrides,
  THRICE,
  TWICE,
  UNLIMITED,
} from '../../test/support/overrides/overridden-engine.ts'
import { descriptor, told } from '../../test/support/rate-limit/limit-engine.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { MapStore } from '../../test/support/store/map-store.ts'
import type { OverrideChange } from '../overrides/override.ts'
import { PlainRequestView } from '../request/view.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import { PlanSwitch } from './active-plan.ts'
import type { Allowed, Decision, Rejected } from './decision.ts'
import type { LimitResult } from './descriptors/descriptor-call.ts'
import { Engine } from './engine.ts'
import type { Explanation } from './explain/explanation.ts'

const KEY = 'header:x-k'
const ALICE = { 'x-k': 'alice' }
const BOB = { 'x-k': 'bob' }
const SHADOW: OverrideChange = { kind: 'shadow' }
const HALF: OverrideChange = { kind: 'multiply', factor: 0.5 }
const BODY = { promptTokens: 0, requestedTokens: 1000, choices: 1, isStream: false, model: undefined }

function one(rule: object, mode?: string): PolicyText[] {
  return [policy('p', { ...(mode && { mode }), rules: [rule] })]
}

/** Ten at once, and next to nothing after them. */
const BUCKET = bucketRule('r', [KEY], 10, 1e-6)
const QUOTA = windowRule('r', [KEY], { limit: 10, period: '1d' })

describe('an override', () => {
  test.each([
    ['a bucket', BUCKET],
    ['a window', QUOTA],
    ['requests in flight', concurrencyRule('r', [KEY], 10)],
  ])('of %s leaves what was spent spent of the larger limit', (_, rule) => {
    const { passing, set } = overriddenEngine(one(rule))
    expect(passing(ALICE)).toBe(10)
    set(ruleOf({ [KEY]: 'alice' }), THRICE)
    expect(passing(ALICE)).toBe(20)
    expect(passing(BOB)).toBe(10)
  })

  test('of a budget of money leaves what was spent spent, and warns of shares of the larger one', () => {
    const rule = budgetRule('r', [KEY], { budget: 10, cost: { header: 'x-cost', default: 1 } })
    const { passing, set } = overriddenEngine(one(rule))
    expect(passing(ALICE)).toBe(10)
    set(ruleOf(), TWICE)
    expect(passing(ALICE)).toBe(10)
  })

  test.each([
    ['a bucket', BUCKET],
    ['a window', QUOTA],
  ])('that cuts %s caps what is left', (_, rule) => {
    const { passing, set, decide } = overriddenEngine(one(rule))
    decide(ALICE)
    set(ruleOf({ [KEY]: 'alice' }), HALF)
    expect(passing(ALICE)).toBe(rule === BUCKET ? 5 : 4)
    expect(passing(BOB)).toBe(10)
  })

  test('of a caller that has not been seen, or is full, is full', () => {
    const { passing, set } = overriddenEngine(one(BUCKET))
    set(ruleOf(), THRICE)
    expect(passing(ALICE)).toBe(30)
  })

  test('is in force from its moment on, until its end, whatever thread asks', () => {
    const { engine, clock, passing, view } = overriddenEngine(one(BUCKET))
    const fromMs = clock.nowMs() + 1000
    expect(passing(ALICE)).toBe(10)
    setOverrides(engine, [override(ruleOf(), TWICE, clock, fromMs)])
    expect(passing(ALICE)).toBe(0)
    clock.advance(999.5)
    expect(passing(ALICE)).toBe(0)
    clock.advance(0.5)
    expect(engine.decide(view(ALICE))).toMatchObject({ action: 'allow', limit: { limitText: '20', remaining: 9 } })
    clock.advance(3_599_999)
    expect(passing(ALICE, 5)).toBe(5)
    clock.advance(1)
    expect(engine.inspect({ policy: 'p', rule: 'r', values: { [KEY]: 'alice' } })).toMatchObject({
      counters: [{ limit: 10, remaining: 4 }],
    })
    // Never more than the rule's own limit, whatever is left of the larger one.
    expect(passing(BOB)).toBe(10)
  })

  test('that ends carries its level over, capped', () => {
    const { engine, passing, set, decide } = overriddenEngine(one(BUCKET))
    set(ruleOf(), THRICE)
    decide(ALICE)
    setOverrides(engine, [])
    expect(passing(ALICE)).toBe(10)
  })

  test('adds its difference once, however often it is announced and whoever else writes', () => {
    const { engine, clock, passing } = overriddenEngine(one(BUCKET))
    expect(passing(ALICE)).toBe(10)
    clock.advance(1)
    const timed = override(ruleOf(), THRICE, clock)
    for (let i = 0; i < 3; i++) {
      setOverrides(engine, [{ ...timed }])
      expect(passing(ALICE)).toBe(i === 0 ? 20 : 0)
      // A thread that does not know it yet.
      setOverrides(engine, [])
      expect(passing(ALICE)).toBe(0)
    }
  })

  test.each([
    ['a raise', THRICE, 8, [21, 19]],
    ['a cut', HALF, 0, [4, 2]],
  ])('is not undone by a decision that began before its moment and comes after one under it: %s', (_, change, spent, left) => {
    const { engine, clock, view } = overriddenEngine(one(BUCKET))
    for (let i = 0; i < spent; i++) engine.decide(view(ALICE))
    clock.advance(10)
    setOverrides(engine, [override(ruleOf(), change, clock)])
    expect(engine.decide(view(ALICE))).toMatchObject({ limit: { remaining: left[0] } })
    expect(engine.decide(view(ALICE), { nowMs: clock.nowMs() - 1 })).toMatchObject({ action: 'allow' })
    expect(engine.decide(view(ALICE))).toMatchObject({ limit: { remaining: left[1] } })
  })

  test('that takes the place of another adds what it adds to that', () => {
    const { passing, set } = overriddenEngine(one(BUCKET))
    passing(ALICE)
    set(ruleOf(), TWICE)
    expect(passing(ALICE)).toBe(10)
    set(ruleOf(), THRICE)
    expect(passing(ALICE)).toBe(10)
    set(ruleOf(), HALF)
    expect(passing(ALICE)).toBe(0)
  })

  test('of values wins over one of the whole rule, and leaves others to it', () => {
    const { engine, clock, passing } = overriddenEngine(one(BUCKET))
    setOverrides(engine, [override(ruleOf({ [KEY]: 'alice' }), HALF, clock), override(ruleOf(), TWICE, clock)])
    expect(passing(ALICE)).toBe(5)
    expect(passing(BOB)).toBe(20)
  })

  test('of several keys is of all their values together', () => {
    const { passing, set } = overriddenEngine(one(bucketRule('r', [KEY, 'header:x-t'], 10, 1e-6)))
    set(ruleOf({ 'header:x-t': 't', [KEY]: 'alice' }), TWICE)
    expect(passing({ ...ALICE, 'x-t': 't' })).toBe(20)
    expect(passing({ ...ALICE, 'x-t': 'u' })).toBe(10)
    expect(passing({ 'x-k': 't', 'x-t': 'alice' })).toBe(10)
  })

  test('of a credential knows its digest alone', () => {
    const { passing, set } = overriddenEngine(one(bucketRule('r', ['bearer', KEY], 10, 1e-6)))
    set(ruleOf({ bearer: callerDigest(['s3cret']), [KEY]: 'alice' }), TWICE)
    expect(passing({ authorization: 'Bearer s3cret', ...ALICE })).toBe(20)
    expect(passing({ authorization: 'Bearer other', ...ALICE })).toBe(10)
    expect(passing({ authorization: `Bearer ${callerDigest(['s3cret'])}`, ...ALICE })).toBe(10)
  })

  test('is described in decisions and headers by its own limit, and by the rule of the bundle', () => {
    const { engine, decide, set, passing } = overriddenEngine(one(BUCKET))
    const { rules } = engine.plan!.policies[0]!
    set(ruleOf(), THRICE)
    expect((decide(ALICE) as Allowed).limit).toMatchObject({ limitText: '30', remaining: 29 })
    expect((decide(ALICE) as Allowed).rule).toBe(rules[0])
    passing(ALICE)
    const rejected = decide(ALICE) as Rejected
    expect(rejected).toMatchObject({ action: 'reject', reason: 'token_bucket_exceeded', limit: { limitText: '30', remaining: 0 } })
    expect([rejected.rule, rejected.limit!.rule]).toEqual([rules[0], rules[0]])
    expect(rejected.rule).toBe(rules[0])
  })

  test('stays in force over a new bundle with its rule, and sleeps while the rule is gone or does not fit', () => {
    const { engine, passing, set } = overriddenEngine(one(BUCKET))
    set(ruleOf(), { kind: 'set', fields: { burst: 15 } })
    engine.activate(planOf(...one(QUOTA)))
    expect(passing(ALICE)).toBe(10)
    engine.activate(planOf())
    expect(passing(ALICE, 5)).toBe(5)
    engine.activate(planOf(...one(bucketRule('r', [KEY], 12, 1e-6))))
    expect(passing(ALICE)).toBe(15)
  })

  test('that is set, changed or ended while a plan is prepared is so in that plan', () => {
    const planSwitch = new PlanSwitch()
    const { engine, clock, passing } = overriddenEngine(one(BUCKET), undefined, planSwitch)
    const changed = override(ruleOf(), TWICE, clock)
    setOverrides(engine, [override('all_policies', SHADOW, clock), changed])
    const steps = engine.prepare(2, planOf(...one(bucketRule('r', [KEY], 4, 1e-6))), new Float64Array(1))
    steps.next()
    setOverrides(engine, [{ ...changed, toMs: clock.nowMs() + 1000 }, override(ruleOf({ [KEY]: 'bob' }), THRICE, clock)])
    for (const _ of steps);
    planSwitch.turnTo(2)
    expect([engine.isShadowed, passing(ALICE), passing(BOB)]).toEqual([false, 8, 12])
    clock.advance(1000)
    expect(passing({ 'x-k': 'carol' })).toBe(4)
  })

  test('that is known before the first plan is in force in it, and in each that follows', () => {
    const clock = new ManualClock()
    const engine = new Engine({ store: newEmbeddedStore(64 * 1024), clock, callerDigest })
    const shadow = override('all_policies', SHADOW, clock)
    setOverrides(engine, [shadow, override(ruleOf(), BLOCK, clock)])
    for (const rule of [BUCKET, QUOTA, BUCKET]) {
      engine.activate(planOf(...one(rule)))
      expect(engine.isShadowed).toBe(true)
      expect(engine.decide(new PlainRequestView({ method: 'GET', uri: '/', headers: ALICE }))).toMatchObject({ reason: 'blocked' })
    }
    engine.changeOverrides({ put: [], gone: [shadow.override.id] })
    engine.activate(planOf(...one(QUOTA)))
    expect(engine.isShadowed).toBe(false)
  })

  test('of a shadow policy changes what it would reject', () => {
    const { decide, set } = overriddenEngine(one(bucketRule('r', [KEY], 1, 1e-6), 'shadow'))
    const wouldRejects = () => (decide(ALICE) as Allowed).wouldRejects.length
    expect([wouldRejects(), wouldRejects()]).toEqual([0, 1])
    set(ruleOf(), TWICE)
    expect([wouldRejects(), wouldRejects()]).toEqual([0, 1])
    set(ruleOf(), BLOCK)
    expect(decide(ALICE)).toMatchObject({ action: 'allow', reason: 'blocked', limit: undefined })
  })
})

describe('unlimited', () => {
  test('limits nobody it covers, and takes nothing from them', () => {
    const { engine, decide, passing, set } = overriddenEngine(one(BUCKET))
    set(ruleOf({ [KEY]: 'alice' }), UNLIMITED)
    expect(passing(ALICE, 50)).toBe(50)
    expect(decide(ALICE)).toMatchObject({ action: 'allow', limit: undefined })
    expect(passing(BOB)).toBe(10)
    setOverrides(engine, [])
    expect(passing(ALICE)).toBe(10)
  })

  test('lifts a block', () => {
    const { decide, set } = overriddenEngine(one(blockRule('r')))
    expect(decide()).toMatchObject({ action: 'reject' })
    set(ruleOf(), UNLIMITED)
    expect(decide()).toMatchObject({ action: 'allow' })
  })

  test('needs no body', () => {
    const { engine, view, set } = overriddenEngine(one(llmRule('r', [KEY], { tokens_per_minute: 1 })))
    expect(engine.open(view(ALICE))!.needsBody()).toBe('must')
    set(ruleOf({ [KEY]: 'alice' }), UNLIMITED)
    expect(engine.open(view(ALICE))!.needsBody()).toBe('no')
    expect(engine.open(view(BOB))!.needsBody()).toBe('must')
    expect(engine.open(view(ALICE))!.decide({ body: BODY })).toMatchObject({ action: 'allow', reservation: undefined })
  })
})

describe('block', () => {
  const rules = [bucketRule('first', [], 5, 1e-6), BUCKET]

  test('rejects whom it covers before anything is taken', () => {
    const { engine, decide, passing, set } = overriddenEngine([policy('p', { rules })])
    set(ruleOf({ [KEY]: 'alice' }), BLOCK)
    const rejected = decide(ALICE) as Rejected
    expect(rejected).toMatchObject({ action: 'reject', reason: 'blocked', canRetry: false, limit: undefined })
    expect(rejected.rule).toBe(engine.plan!.policies[0]!.rules[1])
    const evaluation = engine.open(new PlainRequestView({ method: 'GET', uri: '/', headers: ALICE }))!
    expect(evaluation.needsBody()).toBe('no')
    expect(evaluation.precheck()).toMatchObject({ action: 'reject', reason: 'blocked' })
    expect(passing(BOB)).toBe(5)
  })

  test('of a whole rule rejects those that the rule applies to', () => {
    const { decide, set } = overriddenEngine(one(matching({ 'header:x-t': 'free' }, BUCKET)))
    set(ruleOf(), BLOCK)
    expect(decide({ ...ALICE, 'x-t': 'free' })).toMatchObject({ reason: 'blocked' })
    expect(decide({ ...ALICE, 'x-t': 'paid' })).toMatchObject({ action: 'allow' })
    expect(decide({ 'x-t': 'free' })).toMatchObject({ action: 'allow' })
  })

  test('ends the open streams of those that it blocks if it says so, and no others', () => {
    const { engine, view, set, clock } = overriddenEngine(one(BUCKET))
    const [alice, bob] = [view(ALICE), view(BOB)]
    set(ruleOf({ [KEY]: 'alice' }), BLOCK)
    expect([engine.cutsStreams, engine.findStreamCut(alice, undefined)]).toEqual([false, undefined])
    const { toMs } = set(ruleOf({ [KEY]: 'alice' }), { kind: 'block', cutsStreams: true })
    expect([engine.cutsStreams, engine.cutsStreamsByOverride]).toEqual([true, true])
    expect(engine.findStreamCut(alice, undefined)).toBe(engine.plan!.policies[0]!.rules[0])
    expect(engine.findStreamCut(bob, undefined)).toBeUndefined()
    expect(engine.findStreamCut(view({}), undefined)).toBeUndefined()
    clock.advance(toMs - clock.nowMs())
    expect(engine.findStreamCut(alice, undefined)).toBeUndefined()
    setOverrides(engine, [])
    expect(engine.cutsStreams).toBe(false)
  })

  test('ends no open stream before its moment, in a shadow policy, or while nothing is enforced', () => {
    const CUT = { kind: 'block', cutsStreams: true } as const
    const { engine, view, clock } = overriddenEngine(one(BUCKET))
    const cut = override(ruleOf(), CUT, clock, clock.nowMs() + 100)
    setOverrides(engine, [cut])
    expect(engine.findStreamCut(view(ALICE), undefined)).toBeUndefined()
    clock.advance(100)
    expect(engine.findStreamCut(view(ALICE), undefined)).toBeDefined()
    setOverrides(engine, [cut, override('all_policies', SHADOW, clock)])
    expect(engine.findStreamCut(view(ALICE), undefined)).toBeUndefined()
    const shadow = overriddenEngine([policy('p', { mode: 'shadow', rules: [BUCKET] })])
    shadow.set(ruleOf(), CUT)
    expect(shadow.engine.findStreamCut(view(ALICE), undefined)).toBeUndefined()
  })

  test('leaves a block of the bundle that ends streams as it is', () => {
    const { engine, view, set } = overriddenEngine(one(blockRule('r', { 'header:x-t': 'free' }, { cut_streams: true })))
    set(ruleOf(), BLOCK)
    expect(engine.findStreamCut(view({ 'x-t': 'free' }), undefined)).toBeDefined()
  })

  test('ends no stream under way if it is lifted', () => {
    const { engine, view, set } = overriddenEngine(one(blockRule('r', { 'header:x-t': 'free' }, { cut_streams: true })))
    const free = view({ 'x-t': 'free' })
    expect(engine.findStreamCut(free, undefined)).toBeDefined()
    set(ruleOf(), UNLIMITED)
    expect(engine.findStreamCut(free, undefined)).toBeUndefined()
  })
})

describe('a reservation', () => {
  const RULE = llmRule('r', [KEY], { tokens_per_minute: 10_000, burst_tokens: 10_000, tokens_per_day: 20_000, max_completion_tokens: 1000 })
  const levels = (engine: ReturnType<typeof overriddenEngine>['engine'], values: Record<string, string> = { [KEY]: 'alice' }) => {
    const found = engine.inspect({ policy: 'p', rule: 'r', values })
    return 'ok' in found && found.ok ? found.counters.map(({ level }) => Math.round(level)) : undefined
  }

  test('from before an override is settled under it, and from under it after it: never above the limit in force', () => {
    const { engine, view, set } = overriddenEngine(one(RULE))
    const before = (engine.decide(view(ALICE), { body: BODY }) as Allowed).reservation!.charges[0]!
    set(ruleOf(), THRICE)
    const under = (engine.decide(view(ALICE), { body: BODY }) as Allowed).reservation!.charges[0]!
    expect(levels(engine)).toEqual([28_000, 58_000])
    engine.settle(before, 0)
    expect(levels(engine)).toEqual([29_000, 59_000])
    setOverrides(engine, [])
    engine.settle(under, 0)
    expect(levels(engine)).toEqual([10_000, 20_000])
  })

  test('is settled under the override after the plan was replaced too', () => {
    const { engine, view, set } = overriddenEngine(one(RULE))
    set(ruleOf({ [KEY]: 'alice' }), THRICE)
    const charge = (engine.decide(view(ALICE), { body: BODY }) as Allowed).reservation!.charges[0]!
    engine.activate(planOf(...one(RULE)))
    engine.settle(charge, 400)
    expect(levels(engine)).toEqual([29_600, 59_600])
  })

  test.each([
    ['a caller', { [KEY]: 'alice' }, KEY],
    ['all callers', undefined, KEY],
    ['a credential', { bearer: callerDigest(['alice']) }, 'bearer'],
  ])('that a gateway settles, without its values, is settled under the override of %s', (_, values, key) => {
    const rule = llmRule('r', [key], { tokens_per_minute: 10_000, tokens_per_day: 20_000, max_completion_tokens: 1000 })
    const { engine, view, set } = overriddenEngine(one(rule))
    set(ruleOf(values), THRICE)
    const request = view({ ...ALICE, authorization: 'Bearer alice' })
    const { reservation } = engine.decide(request, { body: BODY, isSettledLater: true }) as Allowed
    const [located] = engine.locate(reservation!, callerDigest)
    engine.settleLocated(located!, 250, undefined)
    expect(levels(engine, { [key]: 'alice' })).toEqual([29_750, 59_750])
  })

  test('of holds is renewed and released under the override', () => {
    const { engine, view, passing, set } = overriddenEngine(one(concurrencyRule('r', [KEY], 2)))
    const { reservation } = engine.decide(view(ALICE)) as Allowed
    set(ruleOf(), TWICE)
    const hold = { ...reservation!.holds[0]!, taken: engine.renew(reservation!.holds[0]!) as never }
    expect(passing(ALICE)).toBe(3)
    engine.settle(hold, 0)
    expect(passing(ALICE)).toBe(1)
  })
})

describe('shadow_all', () => {
  const policies = [
    policy('hosts', { selector: { hosts: ['a.test'] }, rules: [bucketRule('r', [], 1)] }),
    policy('p', { rules: [bucketRule('r', [KEY], 2, 1e-6)] }),
    policy('blocked', { rules: [blockRule('no', { 'header:x-t': 'free' })] }),
    policy('llm', { selector: { pathPrefix: '/llm' }, rules: [llmRule('budget', [], { tokens_per_minute: 5000 })] }),
  ]

  test('rejects and refuses nobody, on the same counters: what does not fit takes nothing', () => {
    const { engine, decide, passing, set } = overriddenEngine(policies.slice(1))
    set('all_policies', { kind: 'shadow' })
    expect(decide(ALICE)).toMatchObject({ action: 'allow', reason: 'all_rules_passed', limit: undefined, isShadowed: true })
    expect(passing(ALICE, 20)).toBe(20)
    expect(decide(ALICE)).toMatchObject({ action: 'allow', reason: 'token_bucket_exceeded', limit: undefined })
    expect((decide(ALICE) as Allowed).wouldRejects).toMatchObject([{ reason: 'token_bucket_exceeded', rule: { name: 'r' } }])
    setOverrides(engine, [])
    expect(passing(ALICE)).toBe(0)
    expect(passing(BOB)).toBe(2)
  })

  test('refuses no request for its host, its repeated fields or a store that does not answer', () => {
    const { engine, decide, set } = overriddenEngine(policies)
    set('all_policies', { kind: 'shadow' })
    const repeated = new PlainRequestView({ method: 'GET', uri: '/', headers: { 'x-k': ['a', 'b'] } })
    expect(engine.decide(repeated)).toMatchObject({ action: 'allow' })
    expect(engine.explain(repeated)).toMatchObject({ decision: { action: 'allow' } })
    expect(decide({ 'x-t': 'free' })).toMatchObject({ action: 'allow', reason: 'blocked' })
    const store = new MapStore()
    store.takeAll = () => 'unavailable' as never
    const remote = overriddenEngine(policies.slice(1, 2), store)
    remote.set('all_policies', { kind: 'shadow' })
    expect(remote.decide(ALICE)).toMatchObject({ action: 'allow', limit: undefined })
  })

  test('may read a body and must not, and prechecks nothing', () => {
    const { engine, set } = overriddenEngine(policies)
    const view = new PlainRequestView({ method: 'POST', uri: '/llm', host: 'b.test', headers: { 'x-t': 'free' } })
    set('all_policies', { kind: 'shadow' })
    const evaluation = engine.open(view)!
    expect(evaluation.needsBody()).toBe('may')
    expect(evaluation.precheck()).toBeUndefined()
    const { reservation } = evaluation.decide({ body: BODY }) as Allowed
    expect(reservation!.charges).toHaveLength(1)
    expect(engine.isShadowed).toBe(true)
  })

  test('explains what it lets pass', () => {
    const { engine, passing, view, set } = overriddenEngine(policies.slice(1, 2))
    passing(ALICE)
    set('all_policies', { kind: 'shadow' })
    const explained = engine.explain(view(ALICE)) as { decision: Decision }
    expect(explained.decision).toEqual(engine.decide(view(ALICE)))
  })

  test('lets calls of the rate limit service pass', () => {
    const { engine, set } = overriddenEngine([
      policy('p', { selector: { domain: 'd' }, rules: [bucketRule('r', ['descriptor:u'], 1, 1e-6)] }),
    ])
    const ask = () => engine.decideDescriptors({ domain: 'd', descriptors: [descriptor('u=a')] }) as LimitResult
    set('all_policies', { kind: 'shadow' })
    expect([told(ask()), told(ask())]).toEqual(['allow, ok - 0', 'allow, ok - 0'])
    expect((ask().decision as Allowed).wouldRejects).toMatchObject([{ reason: 'token_bucket_exceeded' }])
    setOverrides(engine, [])
    expect(told(ask())).toBe('reject, over r 0')
  })
})

describe('in calls of the rate limit service, an override', () => {
  const rules = [windowRule('r', ['descriptor:u'], { limit: 10, period: '1h' })]
  const started = () => {
    const { engine, set } = overriddenEngine([policy('p', { selector: { domain: 'd' }, rules })])
    const ask = (...texts: string[]) => engine.decideDescriptors({ domain: 'd', descriptors: texts.map((text) => descriptor(text, 6)) })
    return { set, ask: (...texts: string[]) => ask(...texts) as LimitResult }
  }

  test('changes the limit of its descriptor alone, and says so', () => {
    const { ask, set } = started()
    set(ruleOf({ 'descriptor:u': 'a' }), THRICE)
    const { statuses } = ask('u=a', 'u=b')
    expect(statuses).toMatchObject([
      { remaining: 24, stated: { count: 30, unit: 'hour' }, rule: { name: 'r' } },
      { remaining: 4, stated: { count: 10, unit: 'hour' } },
    ])
    expect(told(ask('u=a', 'u=a'))).toBe('allow, ok r 12, ok r 12')
    expect(told(ask('u=a', 'u=b'))).toBe('reject, ok r 12, over r 0')
  })

  test('blocks or lifts its descriptor', () => {
    const { ask, set } = started()
    set(ruleOf({ 'descriptor:u': 'a' }), BLOCK)
    expect(told(ask('u=b', 'u=a'))).toBe('reject, ok - 0, over r 0')
    expect(ask('u=a').decision).toMatchObject({ reason: 'blocked' })
    set(ruleOf({ 'descriptor:u': 'a' }), UNLIMITED)
    expect(told(ask('u=a', 'u=b'))).toBe('allow, ok - Infinity, ok r 4')
  })
})

describe('explain and inspect', () => {
  test('show the override and the counters under it, and take nothing', () => {
    const { engine, decide, set, view } = overriddenEngine(one(BUCKET))
    for (let i = 0; i < 4; i++) decide(ALICE)
    const { override: made } = set(ruleOf({ [KEY]: 'alice' }), TWICE)
    const explain = (headers: Record<string, string>) => engine.explain(view(headers)) as Explanation
    expect(explain(ALICE).policies[0]!.rules).toMatchObject([{ override: made, counters: [{ limit: 20, remaining: 16, waitMs: 0 }] }])
    expect(explain(BOB).policies[0]!.rules).toMatchObject([{ override: undefined, counters: [{ limit: 10, remaining: 10 }] }])
    const inspect = (value: string) => engine.inspect({ policy: 'p', rule: 'r', values: { [KEY]: value } })
    expect(inspect('alice')).toMatchObject({ override: made, counters: [{ limit: 20, remaining: 16 }] })
    expect(inspect('bob')).toMatchObject({ override: undefined, counters: [{ limit: 10, remaining: 10 }] })
  })

  test('show the rule’s own counters where an override blocks or lifts it', () => {
    const { engine, decide, set, view } = overriddenEngine(one(BUCKET))
    decide(ALICE)
    const { override: made } = set(ruleOf(), BLOCK)
    expect(engine.inspect({ policy: 'p', rule: 'r', values: { [KEY]: 'alice' } })).toMatchObject({
      override: made,
      counters: [{ limit: 10, remaining: 9 }],
    })
    expect(engine.explain(view(ALICE))).toMatchObject({
      decision: { action: 'reject', reason: 'blocked' },
      policies: [{ rules: [{ override: made, why: undefined }] }],
    })
  })

  test('explain decides as decide does, under every kind of override', () => {
    for (const change of [TWICE, HALF, UNLIMITED, BLOCK]) {
      const { engine, decide, passing, set, view } = overriddenEngine(one(BUCKET))
      passing(ALICE)
      set(ruleOf(), change)
      expect((engine.explain(view(ALICE)) as { decision: Decision }).decision).toEqual(decide(ALICE))
    }
  })

  test('a reset is full of the limit in force', () => {
    const { engine, passing, set } = overriddenEngine(one(BUCKET))
    passing(ALICE)
    set(ruleOf(), TWICE)
    expect(engine.reset({ policy: 'p', rule: 'r', values: { [KEY]: 'alice' } })).toMatchObject({ counters: [{ limit: 20, remaining: 20 }] })
    expect(passing(ALICE)).toBe(20)
  })
})
