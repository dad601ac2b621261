import { describe, expect, test } from 'vitest'
import { bucketRule, budgetRule, bundle, concurrencyRule, llmRule, policy, windowRule } from '../../test/support/bundles/bundles.ts'
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

describe('the callers that are rejected most', () => {
  test('are kept for an hour, with their first and last reject, though nobody asks meanwhile', async () => {
    const watched = new Watched(bucketRule('r', [KEY], 4))
    const startMs = watched.clock.nowMs()
    for (const minutes of [0, 7, 1]) {
      watched.clock.advance(minutes * 60_000)
      watched.ask('alice', 5)
    }
    const lastMs = startMs + 8 * 60_000
    expect((await watched.read()).rejected).toMatchObject([{ hourCount: 3, firstMs: startMs, lastMs }])
    watched.clock.advance(15 * 60_000)
    expect((await watched.read()).rejected).toMatchObject([{ count: 0, hourCount: 3, firstMs: startMs, lastMs }])
    watched.clock.advance(37 * 60_000)
    expect((await watched.read()).rejected).toMatchObject([{ count: 0, hourCount: 3, firstMs: startMs, lastMs }])
    // All periods of its rejects have ended more than an hour ago.
    watched.clock.advance(20 * 60_000)
    watched.top.sweep(watched.clock.nowMs())
    expect((await watched.read()).rejected).toEqual([])
  })

  test('of an older period are the 200 that were rejected most, and the error says what the others may have had', async () => {
    const watched = new Watched(bucketRule('r', [KEY], 4))
    for (let i = 0; i < 300; i++) for (let times = 0; times < (i < 150 ? 3 : 2); times++) watched.ask(`caller ${i}`, 5)
    expect(await watched.read()).toMatchObject({ maxError: 0, hourMaxError: 0 })
    watched.clock.advance(20 * 60_000)
    const { rejected, maxError, hourMaxError } = await watched.read()
    expect({ maxError, hourMaxError, length: rejected.length }).toEqual({ maxError: 0, hourMaxError: 2, length: 200 })
    expect(rejected.slice(0, 150).map(({ hourCount }) => hourCount)).toEqual(Array(150).fill(3))
  })

  test('with the same counts come in the order of their names, whatever order they came in', async () => {
    const names = ['carol', 'alice', 'dave', 'bob']
    const watched = new Watched(bucketRule('r', [KEY], 4))
    for (const name of names) watched.ask(name, 5)
    for (const name of [...names].reverse()) watched.ask(name, 5)
    const listed = async (limit?: number) => (await watched.read(limit)).rejected.map(({ values }) => values[KEY])
    expect(await listed()).toEqual(['alice', 'bob', 'carol', 'dave'])
    expect(await listed(2)).toEqual(['alice', 'bob'])
    watched.ask('dave', 5)
    expect(await listed(2)).toEqual(['dave', 'alice'])
  })
})

test('callers whose remaining shares differ by less than a percent keep their places', async () => {
  const watched = new Watched(bucketRule('r', [KEY], 1000, 0.0001))
  watched.ask('bob', 502)
  watched.ask('alice', 501)
  expect(await watched.nearest()).toEqual(['r alice 499/1000', 'r bob 498/1000'])
  watched.ask('bob', 3)
  watched.ask('alice', 6)
  expect(await watched.nearest()).toEqual(['r alice 493/1000', 'r bob 495/1000'])
  watched.ask('alice', 4)
  watched.ask('bob', 20)
  expect(await watched.nearest()).toEqual(['r bob 475/1000', 'r alice 489/1000'])
})

test('each limit is told by its period and its unit', async () => {
  const watched = new Watched(
    bucketRule('bucket', [KEY], 5),
    { ...bucketRule('weighed', [KEY], 5), algorithm_config: { tokens_per_second: 1, burst: 5, cost: 2 } },
    windowRule('window', [KEY], { limit: 10, period: '1h' }),
    concurrencyRule('in-flight', [KEY], 4),
    llmRule('minute', [KEY], { tokens_per_minute: 1000 }),
    llmRule('day', [KEY], { tokens_per_day: 5000 }),
    budgetRule('money', [KEY], { budget: 10, period: '1mo', cost: { header: 'x-cost', default: 1 } }),
  )
  watched.ask('alice')
  const told = (await watched.read()).nearest.map(({ rule, kind, period, unit }) => `${rule}: ${kind} ${period} ${unit}`)
  expect(told.sort()).toEqual([
    'bucket: bucket undefined requests',
    'day: day 1d tokens',
    'in-flight: in_flight undefined requests',
    'minute: minute undefined tokens',
    'money: budget 1mo money',
    'weighed: bucket undefined units',
    'window: window 1h requests',
  ])
})
