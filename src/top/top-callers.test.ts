import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, concurrencyRule, llmRule, policy, windowRule } from '../../test/support/bundles/bundles.ts'
import { planOf } from '../../test/support/bundles/compiled-rule.ts'
import { KEY, Watched } from '../../test/support/store/watched-callers.ts'

describe('the callers nearest to a limit', () => {
  test('are those of every kind of limit, with what an inspection finds', async () => {
    const watched = new Watched(
      bucketRule('bucket', [KEY], 5),
      windowRule('window', [KEY], { limit: 10, period: '1h' }),
      concurrencyRule('in-flight', [KEY], 4),
      llmRule('llm', [KEY], { tokens_per_minute: 1000, tokens_per_day: 5000 }),
    )
    for (let i = 0; i < 3; i++) watched.ask('alice')
    const found = await watched.nearest()
    expect(found).toHaveLength(4)
    for (const text of found) {
      const [rule, , level] = text.split(' ')
      const inspected = await watched.engine.inspect({ policy: 'p', rule: rule!, values: { [KEY]: 'alice' } })
      const counters = inspected.ok ? inspected.counters : []
      expect(counters.map(({ remaining, limit }) => `${remaining}/${limit}`)).toContain(level)
    }
  })

  test('are no longer those whose counters are full: reset, settled or released', async () => {
    const watched = new Watched(bucketRule('r', [KEY], 5), concurrencyRule('in-flight', [KEY], 4))
    const decision = watched.ask('alice')
    expect(await watched.nearest()).toEqual(['in-flight alice 3/4', 'r alice 4/5'])
    await watched.engine.reset({ policy: 'p', rule: 'r', values: { [KEY]: 'alice' } })
    expect(await watched.nearest()).toEqual(['in-flight alice 3/4'])
    const holds = decision.action === 'allow' ? decision.reservation!.holds : []
    for (const hold of holds) await watched.engine.settle(hold, 0)
    expect(await watched.nearest()).toEqual([])
  })

  test('are noted again after a change of the bundle', async () => {
    const watched = new Watched(bucketRule('r', [KEY], 5))
    watched.ask('alice')
    watched.engine.activate(planOf(bundle(2, policy('p', { rules: [bucketRule('r', [KEY], 8)] }))))
    expect(await watched.nearest()).toEqual([])
    watched.ask('alice')
    expect(await watched.nearest()).toEqual([expect.stringMatching(/^r alice \d\/8$/)])
  })

  test('are forgotten ten minutes after they were noted', async () => {
    const watched = new Watched(bucketRule('r', [KEY], 5, 0.0001))
    watched.ask('alice')
    watched.clock.advance(10 * 60_000 - 1)
    watched.top.sweep(watched.clock.nowMs())
    expect(await watched.nearest()).toEqual(['r alice 4/5'])
    watched.clock.advance(1)
    watched.top.sweep(watched.clock.nowMs())
    expect(await watched.nearest()).toEqual([])
  })
})

test('what is kept of rejected callers is overwritten when it is too old', async () => {
  const watched = new Watched(bucketRule('r', [KEY], 4))
  watched.ask('alice', 5)
  expect((await watched.read()).rejected).toMatchObject([{ values: { [KEY]: 'alice' }, count: 1 }])
  watched.clock.advance(10 * 60_000)
  watched.top.sweep(watched.clock.nowMs())
  expect((await watched.read()).rejected).toEqual([])
})
