import { beforeAll, beforeEach, expect, test } from 'vitest'
import { ClockedInstance } from '../../../test/support/redis/clocked-instance.ts'
import { ClockedLink } from '../../../test/support/redis/clocked-link.ts'
import { usableLink } from '../../../test/support/redis/recorded-link.ts'
import { type RedisServer, runningRedis } from '../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../test/support/redis/redis-suite.ts'
import { thisSuite } from '../../../test/support/service/suite-owner.ts'
import { bucketLimit, dayLimit } from '../../../test/support/store/charging.ts'
import { newEmbeddedStore } from '../table/embedded-store.ts'
import type { FleetCounter } from './fleet-counter.ts'

const SIZE = 1000
const LIMITS = [
  ['a bucket', bucketLimit(1e-9, SIZE)],
  ['a window', dayLimit(SIZE)],
] as const

describeWithRedis('a settlement after Redis has lost its data', () => {
  const suite = thisSuite()
  let redis: RedisServer
  let link: ClockedLink
  let prefixes = 0

  beforeAll(async () => {
    redis = await runningRedis({}, suite)
    link = new ClockedLink((await usableLink(redis.url, 5000, suite)).link)
  })
  beforeEach(async () => {
    await redis.command('FLUSHALL')
    prefixes++
    link.nowMs = 0
    link.wallMs = Date.UTC(2026, 2, 7, 12)
  })

  /** Two workers of one instance, which have the same counts of their own, and a counter that both take from. */
  function workers(limit: (typeof LIMITS)[number][1]): { one: ClockedInstance; other: ClockedInstance; counter: FleetCounter } {
    const local = newEmbeddedStore(256 * 1024)
    const [one, other] = [0, 1].map(() => new ClockedInstance(link, `edge:${prefixes}:`, { local })) as [ClockedInstance, ClockedInstance]
    other.open(limit)
    return { one, other, counter: one.open(limit) }
  }

  /** Sends a take that does not reach Redis before it is let go. What it says of the own count is what was known when it was sent. */
  function heldTake(
    worker: ClockedInstance,
    cost: number,
    counter: FleetCounter,
  ): { letGo: () => void; done: ReturnType<ClockedInstance['take']> } {
    let letGo = (): void => {}
    const isLetGo = new Promise<undefined>((resolve) => {
      letGo = () => resolve(undefined)
    })
    worker.onWayOut = () => isLetGo
    return { letGo: () => letGo(), done: worker.take(cost, counter) }
  }

  test.each(LIMITS)('of %s loses what it gives back to a take that was sent before it, and that begins the record', async (_, limit) => {
    const { one, other, counter } = workers(limit)
    const reserved = [await one.take(100, counter), await one.take(50, counter), await one.take(20, counter)]
    await redis.command('FLUSHALL')
    const crossing = heldTake(other, 10, counter)
    // 70 + 50 + 5 are given back: 45 of 170 were used.
    for (const [i, back] of [70, 50, 5].entries()) await one.settle(counter, back, reserved[i]!.takenWallMs)
    crossing.letGo()
    expect((await crossing.done).outcome).toBe(true)
    // The own count is exact. Redis counts the whole of the three reservations, so that what they gave back has gone to nobody, and no more.
    expect(one.ownLeft(counter)).toBe(SIZE - 45 - 10)
    expect(await one.left(counter)).toBe(SIZE - 170 - 10)
    // Once more, and it is there again.
    await redis.command('FLUSHALL')
    await one.take(1, counter)
    expect(await one.left(counter)).toBe(SIZE - 45 - 10 - 1)
  })

  test.each(LIMITS)('of %s loses nothing to a take that is sent after it', async (_, limit) => {
    const { one, other, counter } = workers(limit)
    const { takenWallMs } = await one.take(100, counter)
    await redis.command('FLUSHALL')
    await one.settle(counter, 70, takenWallMs)
    await other.take(10, counter)
    expect([one.ownLeft(counter), await one.left(counter)]).toEqual([SIZE - 30 - 10, SIZE - 30 - 10])
  })

  test.each(LIMITS)('of %s loses nothing where the take has begun the record before it', async (_, limit) => {
    const { one, other, counter } = workers(limit)
    const { takenWallMs } = await one.take(100, counter)
    await redis.command('FLUSHALL')
    await other.take(10, counter)
    await one.settle(counter, 70, takenWallMs)
    expect([one.ownLeft(counter), await one.left(counter)]).toEqual([SIZE - 30 - 10, SIZE - 30 - 10])
  })

  test.each(LIMITS)('of %s that charges more than was reserved is never forgotten by the instance', async (_, limit) => {
    const { one, other, counter } = workers(limit)
    const { takenWallMs } = await one.take(100, counter)
    await redis.command('FLUSHALL')
    const crossing = heldTake(other, 10, counter)
    await one.settle(counter, -30, takenWallMs)
    crossing.letGo()
    await crossing.done
    expect(await one.left(counter)).toBeLessThanOrEqual(SIZE - 100 - 30 - 10)
  })
})
