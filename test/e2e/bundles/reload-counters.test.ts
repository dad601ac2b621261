import { describe, expect, test } from 'vitest'
import { bucketRule, llmRule, policy } from '../../support/bundles/bundles.ts'
import { call, perCaller, publish, spend, start } from '../../support/bundles/kept-over-reload.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'

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
})

describe.concurrent('when rate and burst change, spent tokens stay spent', () => {
  test('a smaller burst caps what is left', async (t) => {
    const edge = await start(t, perCaller(10, 1))
    await spend(edge, 4)
    await publish(edge, 2, perCaller(3, 1))
    expect((await call(edge)).headers).toMatchObject({ 'ratelimit-limit': '3', 'ratelimit-remaining': '2' })
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
})
