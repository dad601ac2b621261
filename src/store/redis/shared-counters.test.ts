import { expect, test } from 'vitest'
import { usableLink } from '../../../test/support/redis/recorded-link.ts'
import { redisOfSuite } from '../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../test/support/redis/redis-suite.ts'
import { bucketLimit, takeRows } from '../../../test/support/store/charging.ts'
import type { Limit } from '../../limiter/limit.ts'
import { systemClock } from '../../time/clock.ts'
import { Charges } from '../charges.ts'
import type { Outcome } from '../counter-store.ts'
import { newEmbeddedStore } from '../table/embedded-store.ts'
import { FleetStore } from './fleet-store.ts'
import { counterScripts } from './scripts.ts'
import { SharedCounters } from './shared-counters.ts'

/** A token in 100 s. */
const A_BIG_LIMIT = bucketLimit(1e-5, 1000)
const A_SMALL_LIMIT = bucketLimit(0.01, 10)
/** Nothing comes back to it while a test runs, however long that takes. */
const A_SLOW_LIMIT = bucketLimit(1e-8, 1000)

describeWithRedis('instances that have different limits for one rule', () => {
  const redisOf = redisOfSuite()
  let key: string

  /** Takes one after the other, on an instance that has this limit and has taken nothing yet. */
  async function takeAlone(limit: Limit, ...costs: number[]): Promise<{ level: number; waitMs: number; shared: SharedCounters }> {
    const { link } = await usableLink(redisOf().url)
    const shared = new SharedCounters(link, counterScripts(), { prefix: 'edge:', maxSlackMs: 0 }, { onUnknownOutcome() {} })
    const local = newEmbeddedStore(64 * 1024)
    const store = new FleetStore({ shared, local, failureMode: 'closed', clock: systemClock, listener: { onDecided() {} } })
    const counter = store.open({ identity: ['rule'], limit, sinceMs: -1e9 })
    const charges = new Charges()
    charges.add(counter, 0)
    key = shared.keyOf(charges, 0)
    let taken = { levels: [0] as readonly number[], waitsMs: [0] as readonly number[] }
    for (const cost of costs) taken = await takeRows(store, [{ counter, cost }], systemClock.nowMs(), systemClock.wallMs())
    return { level: taken.levels[0]!, waitMs: taken.waitsMs[0]!, shared }
  }

  test('a bucket that is full by a small limit is not forgotten while it means something by a large one', async () => {
    await takeAlone(A_BIG_LIMIT, 600)
    await takeAlone(A_SMALL_LIMIT, 3)
    expect(Number(await redisOf().command('PTTL', key))).toBeGreaterThan(59_000_000)
    expect((await takeAlone(A_BIG_LIMIT, 0)).level).toBeLessThan(11)
  })

  test('a lease that goes back under the limit from before leaves the new one in force', async () => {
    const { shared } = await takeAlone(A_SMALL_LIMIT, 5)
    const { level } = await takeAlone(A_SLOW_LIMIT, 1)
    expect(await shared.giveBackLease(key, A_SMALL_LIMIT, 8, systemClock.wallMs())).toBe(true)
    expect((await takeAlone(A_SLOW_LIMIT, 0)).level).toBeLessThan(level + 8.1)
  })
})

test('a reply that the script cannot have sent leaves the decision to the failure mode', async () => {
  for (const reply of [
    'OK',
    '',
    [],
    [1],
    [1, 2, 3],
    [1, 2, 3, 0, 0, 0],
    [1, 2, NaN, 0, 0, 0, 0],
    [2],
    [2, NaN],
    [2, 1, 0, 0, 0, 0, 0, 0],
  ]) {
    const link = { groupOf: () => 0, isUsable: () => true, run: async () => reply }
    const unknown: string[] = []
    const shared = new SharedCounters(
      link,
      counterScripts(),
      { prefix: 'edge:', maxSlackMs: 0 },
      { onUnknownOutcome: (what) => unknown.push(what) },
    )
    const local = newEmbeddedStore(64 * 1024)
    const store = new FleetStore({ shared, local, failureMode: 'local', clock: systemClock, listener: { onDecided() {} } })
    const counter = store.open({ identity: ['rule'], limit: A_SMALL_LIMIT, sinceMs: 0 })
    const answers: Outcome[] = []
    for (let i = 0; i < 3; i++) answers.push((await takeRows(store, [{ counter, cost: 4 }], 0)).taken)
    expect(answers).toEqual([true, true, false])
    expect(unknown).toEqual(['take', 'take', 'take'])
  }
})
