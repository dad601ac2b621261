import { describe, expect, test } from 'vitest'
import {
  blockRule,
  bucketRule,
  bundle,
  llmRule,
  matching,
  policy,
  rateRule,
  unlimitedRule,
  windowRule,
} from '../../../test/support/bundles/bundles.ts'
import { descriptor, limitEngine, told } from '../../../test/support/rate-limit/limit-engine.ts'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../../test/support/store/async-store.ts'
import { MapStore } from '../../../test/support/store/map-store.ts'
import { PlainRequestView } from '../../request/view.ts'
import { newEmbeddedStore } from '../../store/table/embedded-store.ts'
import { Engine } from '../engine.ts'
import type { LimitDescriptor, LimitResult } from './descriptor-call.ts'

const USER = 'descriptor:user'
const PLAN = 'descriptor:plan'
const HOUR = { period: '1h' }

function inDomain(...rules: object[]): { ask: (...descriptors: LimitDescriptor[]) => string } & ReturnType<typeof limitEngine> {
  return asking(policy('p', { selector: { domain: 'd' }, rules }))
}

function asking(...policies: ReturnType<typeof policy>[]) {
  const { engine, clock } = limitEngine(bundle(1, ...policies))
  const ask = (...descriptors: LimitDescriptor[]) => told(engine.decideDescriptors({ domain: 'd', descriptors }) as LimitResult)
  return { engine, clock, ask }
}

describe('a rule covers a descriptor', () => {
  test('whose keys are exactly its own, in any order', () => {
    const { ask } = inDomain(bucketRule('one', [USER], 5), matching({ [PLAN]: 'free' }, bucketRule('two', [USER], 5)))
    expect(ask(descriptor('user=a'))).toBe('allow, ok one 4')
    expect(ask(descriptor('user=a plan=free'))).toBe('allow, ok two 4')
    expect(ask(descriptor('plan=free user=a'))).toBe('allow, ok two 3')
    expect(ask(descriptor('plan=free'))).toBe('allow, ok - 0')
    expect(ask(descriptor('plan=free user=a more=x'))).toBe('allow, ok - 0')
    expect(ask(descriptor(''))).toBe('allow, ok - 0')
    // (a) and (a, b) in one call never charge one rule twice
    expect(ask(descriptor('user=a'), descriptor('user=a plan=free'))).toBe('allow, ok one 3, ok two 2')
  })

  test('of its domain only', () => {
    const { engine } = inDomain(bucketRule('one', [USER], 5))
    expect(told(engine.decideDescriptors({ domain: 'other', descriptors: [descriptor('user=a')] }) as LimitResult)).toBe('allow, ok - 0')
  })

  test('whose repeated keys have numbers', () => {
    const { ask } = inDomain(matching({ 'descriptor:path': 'v1' }, bucketRule('r', ['descriptor:path#2'], 2)))
    expect(ask(descriptor('path=v1 path=users'))).toBe('allow, ok r 1')
    expect(ask(descriptor('path=users path=v1'))).toBe('allow, ok - 0')
    expect(() => descriptor('path=a path=b path#2=c')).toThrow('ambiguous')
  })

  test('of certain values, where the selector says so, its else included', () => {
    const { ask } = asking(
      policy('p', {
        selector: { domain: 'd', descriptors: { [PLAN]: ['free', 'trial*'] } },
        rules: [matching({ [USER]: 'bob' }, bucketRule('bob', [], 5)), matching('else', bucketRule('others', [USER], 2))],
      }),
    )
    expect(ask(descriptor('plan=free user=bob'))).toBe('allow, ok bob 4')
    expect(ask(descriptor('plan=trial-2 user=al'))).toBe('allow, ok others 1')
    expect(ask(descriptor('plan=pro user=al'))).toBe('allow, ok - 0')
    expect(ask(descriptor('user=bob'))).toBe('allow, ok - 0')
  })

  test('by an else where no match of its policy does, judged for each descriptor', () => {
    const { ask } = inDomain(
      matching({ [USER]: ['a', 'b*'] }, bucketRule('named', [USER], 5)),
      matching('else', bucketRule('others', [USER], 2)),
    )
    expect(ask(descriptor('user=a'), descriptor('user=c'), descriptor('user=bob'))).toBe('allow, ok named 4, ok others 1, ok named 4')
  })

  test('by an else without keys where the others look at those keys', () => {
    const { ask } = inDomain(
      unlimitedRule('ours', { [USER]: 'us' }),
      unlimitedRule('pair', { [USER]: 'x', [PLAN]: 'y' }),
      blockRule('rest', 'else'),
    )
    expect(ask(descriptor('user=us'))).toBe('allow, ok - Infinity')
    expect(ask(descriptor('user=them'))).toBe('reject, over rest 0')
    expect(ask(descriptor('user=x plan=z'))).toBe('reject, over rest 0')
    expect(ask(descriptor('plan=z'))).toBe('allow, ok - 0')
  })

  test('with an empty value as with any other', () => {
    const { ask, engine } = inDomain(bucketRule('r', [USER], 2))
    expect(ask(descriptor('user='))).toBe('allow, ok r 1')
    expect(ask(descriptor('user=a'))).toBe('allow, ok r 1')
    expect(engine.inspect({ policy: 'p', rule: 'r', values: { [USER]: '' } })).toMatchObject({ ok: true, counters: [{ remaining: 1 }] })
  })

  test('by the first of many rules with its value as by the last', () => {
    const rules = Array.from({ length: 300 }, (_, i) => matching({ [PLAN]: 'p', [USER]: `u${i}` }, bucketRule(`r${i}`, [], 5)))
    const { ask } = inDomain(...rules)
    for (const i of [0, 1, 149, 299]) expect(ask(descriptor(`user=u${i} plan=p`))).toBe(`allow, ok r${i} 4`)
    expect(ask(descriptor('user=u300 plan=p'))).toBe('allow, ok - 0')
  })
})

describe('a call', () => {
  test('takes for all of its descriptors or for none', () => {
    const { ask } = inDomain(bucketRule('user', [USER], 1), bucketRule('plan', [PLAN], 9))
    expect(ask(descriptor('user=a'), descriptor('plan=x'))).toBe('allow, ok user 0, ok plan 8')
    expect(ask(descriptor('plan=x'), descriptor('user=a'))).toBe('reject, ok plan 8, over user 0')
    expect(ask(descriptor('plan=x'))).toBe('allow, ok plan 7')
  })

  test('charges two descriptors of one counter with the sum', () => {
    const { ask } = inDomain(bucketRule('r', [USER], 5))
    expect(ask(descriptor('user=a', 2), descriptor('user=b'), descriptor('user=a', 2))).toBe('allow, ok r 1, ok r 4, ok r 1')
    expect(ask(descriptor('user=a'), descriptor('user=a'))).toBe('reject, over r 0, over r 0')
    expect(ask(descriptor('user=a'))).toBe('allow, ok r 0')
  })

  test('takes as many hits as it says, and never more than the limit can hold', () => {
    const { ask } = inDomain(windowRule('r', [USER], { limit: 10, ...HOUR }))
    expect(ask(descriptor('user=a', 7))).toBe('allow, ok r 3')
    expect(ask(descriptor('user=a', 4))).toBe('reject, over r 0')
    expect(ask(descriptor('user=a', 2 ** 64))).toBe('reject, over r 0')
    expect(ask(descriptor('user=a', 3))).toBe('allow, ok r 0')
  })

  test('with 0 hits asks whether one would pass, and takes nothing', () => {
    const { ask, clock } = inDomain(bucketRule('user', [USER], 2), bucketRule('plan', [PLAN], 9))
    expect([ask(descriptor('user=a', 0)), ask(descriptor('user=a', 0))]).toEqual(['allow, ok user 2', 'allow, ok user 2'])
    ask(descriptor('user=a', 2))
    clock.advance(900)
    expect(ask(descriptor('user=a', 0), descriptor('plan=x'))).toBe('reject, over user 0, ok plan 9')
    clock.advance(100)
    expect(ask(descriptor('user=a', 0), descriptor('plan=x'))).toBe('allow, ok user 1, ok plan 8')
  })

  test('gives hits back, never above the limit, and nothing where it is rejected', () => {
    const { ask } = inDomain(windowRule('user', [USER], { limit: 10, ...HOUR }), bucketRule('plan', [PLAN], 1))
    ask(descriptor('user=a', 8), descriptor('plan=x'))
    expect(ask(descriptor('user=a', 3, true), descriptor('plan=x'))).toBe('reject, ok - 0, over plan 0')
    expect(ask(descriptor('user=a', 3, true))).toBe('allow, ok user 5')
    expect(ask(descriptor('user=a', 2, true), descriptor('user=a', 2, true), descriptor('user=a', 0))).toBe(
      'allow, ok user 9, ok user 9, ok user 5',
    )
    expect(ask(descriptor('user=a', 2 ** 64, true))).toBe('allow, ok user 10')
    expect(ask(descriptor('user=a', 10))).toBe('allow, ok user 0')
  })

  test('gives back to the present window', () => {
    const { ask, clock } = inDomain(windowRule('user', [USER], { limit: 10, ...HOUR }))
    ask(descriptor('user=a', 10))
    clock.advance(3_600_000)
    expect(ask(descriptor('user=a', 4))).toBe('allow, ok user 6')
    expect(ask(descriptor('user=a', 9, true))).toBe('allow, ok user 10')
  })

  test('of a domain without descriptors that a rule covers is allowed', () => {
    const { engine } = inDomain(bucketRule('r', [USER], 1))
    const { decision } = engine.decideDescriptors({ domain: 'd', descriptors: [descriptor('x=y')] }) as LimitResult
    expect(decision).toMatchObject({ action: 'allow', reason: 'all_rules_passed', limit: undefined, policy: undefined, matchedPolicies: 1 })
  })
})

describe('a rule that charges when over', () => {
  const charging = { limit: 10, ...HOUR, when_over: 'charge' }

  test('is drained by hits after the fact, and refuses questions while nothing is left', () => {
    const { ask } = inDomain(windowRule('tokens', [USER], charging))
    expect(ask(descriptor('user=a', 0))).toBe('allow, ok tokens 10')
    expect(ask(descriptor('user=a', 25))).toBe('allow, ok tokens 0')
    expect(ask(descriptor('user=a', 0))).toBe('reject, over tokens 0')
    // Hits are counted even now: 15 + 5 are missing.
    expect(ask(descriptor('user=a', 5))).toBe('reject, over tokens 0')
    expect(ask(descriptor('user=a', 20, true))).toBe('allow, ok tokens 0')
    expect(ask(descriptor('user=a', 0))).toBe('reject, over tokens 0')
    expect(ask(descriptor('user=a', 1, true))).toBe('allow, ok tokens 1')
    expect(ask(descriptor('user=a', 0))).toBe('allow, ok tokens 1')
  })

  test('takes nothing where another rule refuses', () => {
    const { ask } = inDomain(windowRule('tokens', [USER], charging), bucketRule('requests', [USER], 5))
    expect(ask(descriptor('user=a', 6))).toBe('reject, over requests 0')
    expect(ask(descriptor('user=a', 0))).toBe('allow, ok tokens 10')
  })

  test('stops no take of others while it is in debt', () => {
    const { ask } = inDomain(windowRule('tokens', [USER], charging), bucketRule('plan', [PLAN], 5))
    ask(descriptor('user=a', 10))
    expect(ask(descriptor('user=a', 3), descriptor('plan=x', 2), descriptor('user=b', 1))).toBe(
      'reject, over tokens 0, ok plan 3, ok tokens 9',
    )
    expect(ask(descriptor('user=a', 3), descriptor('plan=x', 4))).toBe('reject, over tokens 0, over plan 0')
    expect(ask(descriptor('plan=x', 0))).toBe('allow, ok plan 3')
    // 10 + 3 are used.
    expect(ask(descriptor('user=a', 4, true))).toBe('allow, ok tokens 1')
  })

  test('tells until when it is over with the debt', () => {
    const { engine } = inDomain(rateRule('tokens', [USER], { rate: '1/second', burst: 10, when_over: 'charge' }))
    const ask = (hits: number) => engine.decideDescriptors({ domain: 'd', descriptors: [descriptor('user=a', hits)] }) as LimitResult
    ask(10)
    expect(ask(20).statuses[0]!.resetMs).toBe(20_001)
    expect(ask(0).decision).toMatchObject({ action: 'reject', limit: { resetMs: 20_001 } })
  })

  test('is what an LLM rule is: its tokens are the hits', () => {
    const { ask } = inDomain(llmRule('llm', [USER], { tokens_per_minute: 100, tokens_per_day: 150 }))
    expect(ask(descriptor('user=a', 0))).toBe('allow, ok llm 100')
    expect(ask(descriptor('user=a', 130))).toBe('allow, ok llm 0')
    expect(ask(descriptor('user=a', 0))).toBe('reject, over llm 0')
  })
})

describe('a block', () => {
  test('rejects the call before anything is taken, and covers nobody once it has expired', () => {
    const { ask, clock } = inDomain(
      blockRule('out', { [USER]: 'mallory' }, { expires_at: '2026-01-15T13:00:00Z' }),
      matching('else', bucketRule('r', [USER], 3)),
    )
    expect(ask(descriptor('user=a'), descriptor('user=mallory'))).toBe('reject, ok - 0, over out 0')
    expect(ask(descriptor('user=a'))).toBe('allow, ok r 2')
    clock.advance(3_600_000)
    expect(ask(descriptor('user=mallory'))).toBe('allow, ok r 2')
  })

  test('is told as such, and no wait would help', () => {
    const { engine } = inDomain(blockRule('out', { [USER]: '*' }))
    const { decision } = engine.decideDescriptors({ domain: 'd', descriptors: [descriptor('user=x')] }) as LimitResult
    expect(decision).toMatchObject({ action: 'reject', reason: 'blocked', canRetry: false, limit: undefined })
  })
})

describe('a shadow policy', () => {
  const shadow = (...rules: object[]) => policy('s', { mode: 'shadow', selector: { domain: 'd' }, rules })
  const enforcing = policy('p', { selector: { domain: 'd' }, rules: [bucketRule('real', [USER], 2)] })

  test('changes no status, and records what it would reject', () => {
    const { engine } = asking(shadow(bucketRule('strict', [USER], 1)), enforcing)
    const ask = () => engine.decideDescriptors({ domain: 'd', descriptors: [descriptor('user=a')] }) as LimitResult
    expect(told(ask())).toBe('allow, ok real 1')
    const second = ask()
    expect(told(second)).toBe('allow, ok real 0')
    expect(second.decision).toMatchObject({ reason: 'token_bucket_exceeded', wouldRejects: [{ rule: { name: 'strict' } }] })
    expect(second.decision).toMatchObject({ policy: { id: 's' }, limit: { rule: { name: 'real' } } })
  })

  test('takes nothing where enforcement rejects, and all or nothing by itself', () => {
    const { engine, ask } = asking(shadow(bucketRule('strict', [USER], 9), windowRule('other', [PLAN], { limit: 1, ...HOUR })), enforcing)
    expect(ask(descriptor('user=a', 3))).toBe('reject, over real 0')
    ask(descriptor('user=a'), descriptor('plan=x'))
    const { decision } = engine.decideDescriptors({ domain: 'd', descriptors: [descriptor('user=a'), descriptor('plan=x')] }) as LimitResult
    expect(decision).toMatchObject({ action: 'allow', wouldRejects: [{ rule: { name: 'other' } }] })
    expect(engine.inspect({ policy: 's', rule: 'strict', values: { [USER]: 'a' } })).toMatchObject({ counters: [{ remaining: 8 }] })
  })

  test('with a block records it', () => {
    const { engine } = asking(shadow(blockRule('out', { [USER]: 'a' })), enforcing)
    const { decision } = engine.decideDescriptors({ domain: 'd', descriptors: [descriptor('user=a')] }) as LimitResult
    expect(decision).toMatchObject({ action: 'allow', reason: 'blocked', wouldRejects: [{ reason: 'blocked' }] })
  })

  test('gets hits back too', () => {
    const { engine, ask } = asking(shadow(bucketRule('strict', [USER], 9)))
    ask(descriptor('user=a', 5))
    expect(ask(descriptor('user=a', 2, true))).toBe('allow, ok - 0')
    expect(engine.inspect({ policy: 's', rule: 'strict', values: { [USER]: 'a' } })).toMatchObject({ counters: [{ remaining: 6 }] })
  })
})

test('the status has the limit as the rule writes it', () => {
  const { engine } = inDomain(
    llmRule('llm', [USER], { tokens_per_minute: 100, tokens_per_day: 120 }),
    rateRule('rate', [PLAN], { rate: '60/hour' }),
  )
  const ask = (text: string, hits: number) =>
    (engine.decideDescriptors({ domain: 'd', descriptors: [descriptor(text, hits)] }) as LimitResult).statuses[0]
  expect(ask('plan=x', 1)).toMatchObject({ stated: { count: 60, unit: 'hour' }, remaining: 59, resetMs: 60_000 })
  expect(ask('user=a', 10)).toMatchObject({ stated: { count: 100, unit: 'minute' } })
  expect(ask('user=b', 110)).toMatchObject({ stated: { count: 100, unit: 'minute' } })
  expect(ask('user=b', 0)).toMatchObject({ isOver: true, stated: { count: 100, unit: 'minute' } })
})

test('requests and descriptors have policies of their own', () => {
  const { engine, ask } = asking(
    policy('calls', { selector: { domain: 'd' }, rules: [blockRule('b', { [USER]: 'a' })] }),
    policy('requests', { rules: [bucketRule('r', [], 5)] }),
  )
  expect(engine.plan!.hasBlocks).toBe(false)
  const request = new PlainRequestView({ method: 'GET', uri: '/' })
  expect(engine.decide(request)).toMatchObject({ action: 'allow', policy: { id: 'requests' }, matchedPolicies: 1 })
  expect(engine.explain(request)).toMatchObject({ policies: [{ why: 'domain' }, { why: undefined }] })
  expect(ask(descriptor('user=b'))).toBe('allow, ok - 0')
})

test('without a bundle nothing is decided', () => {
  const engine = new Engine({ store: newEmbeddedStore(65_536), clock: new ManualClock() })
  expect(engine.decideDescriptors({ domain: 'd', descriptors: [descriptor('user=a')] })).toEqual({
    decision: { action: 'refuse', reason: 'no_bundle_loaded' },
    statuses: [],
  })
})

test('what was taken stays taken where hits cannot be given back, and their status has no limit', () => {
  const store = new MapStore()
  const rules = [bucketRule('plan', [PLAN], 5), bucketRule('user', [USER], 5)]
  const { engine } = limitEngine(bundle(1, policy('p', { selector: { domain: 'd' }, rules })), store)
  const ask = (...descriptors: LimitDescriptor[]) => engine.decideDescriptors({ domain: 'd', descriptors }) as LimitResult
  ask(descriptor('user=a', 4))
  expect(told(ask(descriptor('user=a', 1, true), descriptor('plan=x')))).toBe('allow, ok user 2, ok plan 4')
  // A call with more descriptors leaves nothing behind for the next.
  ask(descriptor('user=b', 0), descriptor('user=c', 0), descriptor('plan=x', 0))
  const takeAll = store.takeAll.bind(store)
  store.takeAll = (...asked) => (asked[0].costs[0] === 0 ? ('unavailable' as never) : takeAll(...asked))
  expect(told(ask(descriptor('user=a', 1, true), descriptor('plan=x')))).toBe('allow, ok - 0, ok plan 3')
  expect(ask(descriptor('user=a', 1, true)).decision).toEqual({ action: 'refuse', reason: 'store_unavailable' })
})

test('a remote store decides the same, however late it is', async () => {
  const store = new AsyncStore()
  const rules = [windowRule('tokens', [USER], { limit: 10, ...HOUR, when_over: 'charge' }), bucketRule('plan', [PLAN], 5)]
  const shadow = policy('s', { mode: 'shadow', selector: { domain: 'd' }, rules: [bucketRule('strict', [PLAN], 1)] })
  const { engine } = limitEngine(bundle(1, policy('p', { selector: { domain: 'd' }, rules }), shadow), store)
  const ask = async (...descriptors: LimitDescriptor[]): Promise<string> => {
    const asked = engine.decideDescriptors({ domain: 'd', descriptors }) as Promise<LimitResult>
    expect(asked).toBeInstanceOf(Promise)
    await store.answerAll(() => 0)
    return told(await asked)
  }
  expect(await ask(descriptor('user=a', 12), descriptor('plan=x', 2))).toBe('allow, ok tokens 0, ok plan 3')
  expect(await ask(descriptor('user=a', 3), descriptor('plan=x', 2))).toBe('reject, over tokens 0, ok plan 1')
  expect(await ask(descriptor('user=a', 0), descriptor('plan=x', 1))).toBe('reject, over tokens 0, ok plan 1')
  expect(await ask(descriptor('user=b', 0), descriptor('plan=x', 0))).toBe('allow, ok tokens 10, ok plan 1')
  expect(await ask(descriptor('user=a', 6, true), descriptor('plan=x', 1))).toBe('allow, ok tokens 1, ok plan 0')
})
