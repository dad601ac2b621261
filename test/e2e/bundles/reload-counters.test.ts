import { describe, expect, type TestContext, test } from 'vitest'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, llmRule, matching, type PolicyText, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

const DAY_MS = 86_400_000

describe.concurrent('a reload keeps the counters of a rule that is still the same', () => {
  test('when everything else changes: order, selector, other policies and rules', async (t) => {
    const rule = bucketRule('r', ['header:x-caller'], 10)
    const edge = await start(t, policy('p', { selector: { pathPrefix: '/a' }, rules: [rule] }))
    await spend(edge, 4)
    await publish(
      edge,
      2,
      policy('new', { rules: [bucketRule('r', ['header:x-caller'], 99)] }),
      policy('p', { mode: 'enforce', selector: { pathPrefix: '/' }, rules: [bucketRule('first', [], 50), rule] }),
    )
    expect((await call(edge)).headers['ratelimit']).toMatch(/^"p";r=5;/)
  })

  test.for([
    ['the policy id', policy('q', { rules: [bucketRule('r', ['header:x-caller'], 10)] })],
    ['the rule name', policy('p', { rules: [bucketRule('s', ['header:x-caller'], 10)] })],
    ['the limit keys', policy('p', { rules: [bucketRule('r', ['header:x-caller', 'header:host'], 10)] })],
    ['their order', policy('p', { rules: [bucketRule('r', ['header:x-team', 'header:x-caller'], 10)] })],
    ['the algorithm', policy('p', { rules: [llmRule('r', ['header:x-caller'], { tokens_per_minute: 10, max_completion_tokens: 1 })] })],
  ] as const)('and begins anew when %s changes', async ([what, changed], t) => {
    const keys = what === 'their order' ? ['header:x-caller', 'header:x-team'] : ['header:x-caller']
    const edge = await start(t, policy('p', { rules: [bucketRule('r', keys, 10)] }))
    await spend(edge, 4)
    await publish(edge, 2, changed)
    expect((await call(edge)).headers['ratelimit-remaining']).toBe('9')
  })

  test('when only its match changes: whom a rule applies to is no part of it', async (t) => {
    const rule = bucketRule('r', ['header:x-caller'], 10)
    const edge = await start(t, policy('p', { rules: [matching({ 'header:x-caller': '*' }, rule)] }))
    await spend(edge, 4)
    const matches = ['else', { 'header:x-caller': ['nobody', '*'] }, undefined] as const
    for (const [i, match] of matches.entries()) {
      await publish(edge, 2 + i, policy('p', { rules: [match === undefined ? rule : matching(match, rule)] }))
      expect((await call(edge)).headers['ratelimit']).toMatch(`"p";r=${5 - i};`)
    }
  })

  test('a header key in another case is the same key', async (t) => {
    const edge = await start(t, policy('p', { rules: [bucketRule('r', ['header:X-Caller'], 10)] }))
    await spend(edge, 4)
    await publish(edge, 2, policy('p', { rules: [bucketRule('r', ['header:x-caller'], 10)] }))
    expect((await call(edge)).headers['ratelimit-remaining']).toBe('5')
  })
})

describe.concurrent('when rate and burst change, spent tokens stay spent', () => {
  test('a larger burst grants nothing at once', async (t) => {
    const edge = await start(t, perCaller(10, 1))
    await spend(edge, 4)
    await publish(edge, 2, perCaller(20, 1))
    expect((await call(edge)).headers).toMatchObject({ 'ratelimit-limit': '20', 'ratelimit-remaining': '5', 'ratelimit-reset': '15' })
  })

  test('a smaller burst caps what is left', async (t) => {
    const edge = await start(t, perCaller(10, 1))
    await spend(edge, 4)
    await publish(edge, 2, perCaller(3, 1))
    expect((await call(edge)).headers).toMatchObject({ 'ratelimit-limit': '3', 'ratelimit-remaining': '2' })
  })

  test('an empty bucket stays empty', async (t) => {
    const edge = await start(t, perCaller(2, 1))
    await spend(edge, 2)
    await publish(edge, 2, perCaller(1000, 1))
    expect((await call(edge)).status).toBe(429)
  })

  test('tokens come back at the old rate before the change and at the new rate after it', async (t) => {
    const clock = new ManualClock()
    const edge = await start(t, perCaller(100, 1), clock)
    await spend(edge, 80)
    clock.advance(10_000)
    await publish(edge, 2, perCaller(100, 4))
    clock.advance(5_000)
    // 20 left, 10 s at 1/s, 5 s at 4/s, and this one taken
    expect((await call(edge)).headers['ratelimit-remaining']).toBe('49')
  })

  test('a caller that never called has the new burst', async (t) => {
    const edge = await start(t, perCaller(10, 1))
    await spend(edge, 10)
    await publish(edge, 2, perCaller(20, 1))
    expect((await call(edge, 'bob')).headers['ratelimit-remaining']).toBe('19')
  })

  test('a daily budget keeps what the day has used', async (t) => {
    const daily = (tokens: number): PolicyText =>
      policy('p', { rules: [llmRule('r', ['header:x-caller'], { tokens_per_day: tokens, max_completion_tokens: 10 })] })
    const clock = new ManualClock()
    const edge = await start(t, daily(100), clock)
    await spend(edge, 4)
    await publish(edge, 2, daily(200))
    expect((await call(edge)).headers['ratelimit-remaining']).toBe('150')
    await publish(edge, 3, daily(55))
    expect(await call(edge)).toMatchObject({ status: 429, headers: { 'x-edge-reason': 'tpd_exceeded' } })
    clock.advance(DAY_MS)
    expect((await call(edge)).headers['ratelimit-remaining']).toBe('45')
  })
})

describe.concurrent('shadow and enforce have counters of their own', () => {
  test('and each finds its own again', async (t) => {
    const inMode = (mode: string): PolicyText => policy('p', { mode, rules: [bucketRule('r', ['header:x-caller'], 10)] })
    const edge = await start(t, inMode('shadow'))
    await spend(edge, 9)
    await publish(edge, 2, inMode('enforce'))
    expect((await call(edge)).headers['ratelimit-remaining']).toBe('9')
    await publish(edge, 3, inMode('shadow'))
    await spend(edge, 1)
    expect(await wouldRejects(edge)).toBe(0)
    await spend(edge, 1)
    expect(await wouldRejects(edge)).toBe(1)
    await publish(edge, 4, inMode('enforce'))
    expect((await call(edge)).headers['ratelimit-remaining']).toBe('8')
  })

  function wouldRejects(edge: Edge): Promise<number> {
    return edge.metric('edge_would_reject_total{policy="p",rule="r",reason="token_bucket_exceeded"}')
  }
})

function perCaller(burst: number, perSecond: number): PolicyText {
  return policy('p', { rules: [bucketRule('r', ['header:x-caller'], burst, perSecond)] })
}

function start(t: TestContext, first: PolicyText, clock = new ManualClock()): Promise<Edge> {
  return running({ bundle: bundle(1, first), clock }, t)
}

async function publish(edge: Edge, version: number, ...policies: PolicyText[]): Promise<void> {
  expect(await offer(edge, bundle(version, ...policies))).toMatchObject({ event: 'bundle_applied', version: String(version) })
}

function call(edge: Edge, caller = 'alice'): ReturnType<Edge['decide']> {
  return edge.decide({
    uri: '/a',
    fields: [
      ['X-Caller', caller],
      ['X-Team', 'a'],
    ],
  })
}

async function spend(edge: Edge, times: number): Promise<void> {
  for (let i = 0; i < times; i++) expect((await call(edge)).status).toBe(200)
}
