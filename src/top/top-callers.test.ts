import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, concurrencyRule, llmRule, policy, windowRule } from '../../test/support/bundles/bundles.ts'
import { planOf } from '../../test/support/bundles/compiled-rule.ts'
import { sized } from '../../test/support/run/property-runs.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { Engine } from '../engine/engine.ts'
import { PlainRequestView } from '../request/view.ts'
import { newEmbeddedStore } from '../store/embedded-store.ts'
import { mergedTop, type Top } from './merged-top.ts'
import { TopCallers } from './top-callers.ts'

const KEY = 'header:x-k'
const NEVER = new Promise(() => {})

/** An engine whose callers are watched, with a clock that moves when told. */
class Watched {
  readonly clock = new ManualClock()
  readonly store = newEmbeddedStore(4 * 1024 * 1024)
  readonly top = new TopCallers({ store: this.store, hashKey: [1, 2], nameOf: () => '0123456789abcdef' })
  readonly engine = new Engine({ store: this.store, clock: this.clock, callerWatch: this.top })

  constructor(...rules: readonly object[]) {
    this.engine.activate(planOf(bundle(1, policy('p', { rules }))))
  }

  ask(key: string, given = 1) {
    const decision = this.engine.decide(new PlainRequestView({ method: 'GET', uri: '/', headers: { 'x-k': key } }), { given })
    if (decision instanceof Promise) throw new Error('the store is in memory')
    return decision
  }

  async read(limit = Number.POSITIVE_INFINITY): Promise<Top> {
    const { engine, clock } = this
    return mergedTop([await this.top.report({}, engine.active, clock.nowMs(), clock.wallMs(), NEVER)], {}, limit)
  }

  async nearest(): Promise<string[]> {
    return (await this.read()).nearest.map(({ rule, values, remaining, limit }) => `${rule} ${values[KEY]} ${remaining}/${limit}`)
  }
}

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

  test('are found among very many others, though few are noted', async () => {
    const watched = new Watched(bucketRule('r', [KEY], 1000, 0.0001))
    watched.ask('mallory', 990)
    for (let i = 0; i < sized(5000, 30_000); i++) {
      watched.ask(`caller ${i}`)
      // 10,000 decisions in 100 ms.
      if (i % 100 === 0) watched.clock.advance(1)
      if (i % 1000 === 0) watched.ask('mallory', 0.001)
    }
    const { nearest } = await watched.read()
    expect(nearest[0]).toMatchObject({ values: { [KEY]: 'mallory' }, remaining: 9 })
    expect(nearest.length).toBeLessThanOrEqual(250)
  })
})

// That they do not keep more than this in memory: test/campaigns/kept-texts.test.ts
test('of callers with long values, the beginning is shown', async () => {
  const watched = new Watched(bucketRule('r', [KEY], 4, 0.0001))
  for (let i = 0; i < 2000; i++) {
    const key = `${i} ${'x'.repeat(600)}`
    watched.ask(key, 5)
    watched.ask(key, 3)
    if (i % 50 === 0) watched.clock.advance(100)
  }
  const { rejected, nearest, maxError } = await watched.read(3)
  expect(maxError).toBe(2)
  for (const { values } of [...rejected, ...nearest]) expect(values[KEY]).toMatch(/^\d+ x{100,}…$/)
})

test('what is kept of rejected callers is overwritten when it is too old', async () => {
  const watched = new Watched(bucketRule('r', [KEY], 4))
  watched.ask('alice', 5)
  expect((await watched.read()).rejected).toMatchObject([{ values: { [KEY]: 'alice' }, count: 1 }])
  watched.clock.advance(10 * 60_000)
  watched.top.sweep(watched.clock.nowMs())
  expect((await watched.read()).rejected).toEqual([])
})
