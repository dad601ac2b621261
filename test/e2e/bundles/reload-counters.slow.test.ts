import { describe, expect, test } from 'vitest'
import { bucketRule, llmRule, matching, type PolicyText, policy } from '../../support/bundles/bundles.ts'
import { call, perCaller, publish, spend, start } from '../../support/bundles/kept-over-reload.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'

const DAY_MS = 86_400_000

describe.concurrent('a reload keeps the counters of a rule that is still the same', () => {
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

  test('an empty bucket stays empty', async (t) => {
    const edge = await start(t, perCaller(2, 1))
    await spend(edge, 2)
    await publish(edge, 2, perCaller(1000, 1))
    expect((await call(edge)).status).toBe(429)
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
