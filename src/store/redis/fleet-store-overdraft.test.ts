import { beforeAll, beforeEach, expect, test } from 'vitest'
import { ClockedInstance } from '../../../test/support/redis/clocked-instance.ts'
import { ClockedLink } from '../../../test/support/redis/clocked-link.ts'
import { usableLink } from '../../../test/support/redis/recorded-link.ts'
import { type RedisServer, runningRedis } from '../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../test/support/redis/redis-suite.ts'
import { thisSuite } from '../../../test/support/service/suite-owner.ts'
import { bucketLimit, dayLimit, overdrawn } from '../../../test/support/store/charging.ts'
import { newEmbeddedStore } from '../table/embedded-store.ts'
import { LinkError } from './link/call.ts'

const SIZE = 100

describeWithRedis('limits in Redis that can be overdrawn', () => {
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

  const LIMITS = [
    ['a bucket', overdrawn(bucketLimit(1e-9, SIZE))],
    ['a window', overdrawn(dayLimit(SIZE))],
  ] as const

  test.each(LIMITS)('%s grants two takes, and the one that overdraws it is answered first: both stand', async (_, limit) => {
    // Two workers of one instance.
    const local = newEmbeddedStore(256 * 1024)
    const [one, other] = [0, 1].map(() => new ClockedInstance(link, `edge:${prefixes}:`, { local }))
    const counter = one!.open(limit)
    let release = (): void => {}
    const isReleased = new Promise<undefined>((resolve) => {
      release = () => resolve(undefined)
    })
    one!.onWayBack = () => isReleased
    const first = one!.take(10, counter)
    await redisHas(redis, 1)
    expect(await other!.take(200, other!.open(limit))).toMatchObject({ outcome: true, levels: [-110] })
    release()
    expect(await first).toMatchObject({ outcome: true, levels: [90] })
    expect([one!.ownLeft(counter), await other!.left(counter)]).toEqual([-110, -110])
  })

  test.each(LIMITS)('%s that Redis has lost is in debt again by what the instance took itself', async (_, limit) => {
    const one = new ClockedInstance(link, `edge:${prefixes}:`)
    const counter = one.open(limit)
    await one.take(150, counter)
    await redis.command('FLUSHALL')
    expect(await one.take(1, counter)).toMatchObject({ outcome: false, levels: [-50] })
    const other = new ClockedInstance(link, `edge:${prefixes}:`)
    expect(await other.take(1, other.open(limit))).toMatchObject({ outcome: true, levels: [99] })
  })

  test.each(LIMITS)('%s is refused by the own count while Redis is unreachable', async (_, limit) => {
    const one = new ClockedInstance(link, `edge:${prefixes}:`, { failureMode: 'local' })
    const counter = one.open(limit)
    await one.take(90, counter)
    one.onWayOut = async () => new LinkError('not_sent', 'timeout', 'for the test')
    expect(await one.take(30, counter)).toMatchObject({ outcome: true, levels: [-20] })
    expect(await one.take(0, counter)).toMatchObject({ outcome: false, levels: [-20] })
  })

  test.each(LIMITS)('%s is never leased', (_, limit) => {
    const { store } = new ClockedInstance(link, `edge:${prefixes}:`)
    expect(store.open({ identity: ['r'], limit, sinceMs: 0, isLeasable: true }).isLeasable).toBe(false)
  })
})

async function redisHas(redis: RedisServer, keys: number): Promise<void> {
  await expect.poll(() => redis.command('DBSIZE')).toBe(keys)
}
