import { beforeAll, beforeEach, expect, test } from 'vitest'
import type { FleetCounter } from '../../../src/store/redis/fleet-counter.ts'
import { ClockedInstance } from '../../support/redis/clocked-instance.ts'
import { ClockedLink } from '../../support/redis/clocked-link.ts'
import { OldInstance } from '../../support/redis/old-instance.ts'
import { usableLink } from '../../support/redis/recorded-link.ts'
import { type RedisServer, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { bucketLimit, dayLimit } from '../../support/store/charging.ts'

const SIZE = 100
const LIMITS = { bucket: bucketLimit(2 ** -30, SIZE), day: dayLimit(SIZE) }
const KINDS = ['bucket', 'day'] as const

describeWithRedis('instances of version 0.1 and of this one on one Redis', () => {
  const suite = thisSuite()
  let redis: RedisServer
  let link: ClockedLink

  beforeAll(async () => {
    redis = await runningRedis({}, suite)
    link = new ClockedLink((await usableLink(redis.url, 5000, suite)).link)
  })
  beforeEach(async () => {
    await redis.command('FLUSHALL')
    link.nowMs = 0
    link.wallMs = Date.UTC(2026, 0, 15, 12)
  })

  const tick = () => {
    link.nowMs++
    link.wallMs++
  }

  function both(kind: (typeof KINDS)[number]): { present: ClockedInstance; old: OldInstance; counter: FleetCounter; key: string } {
    const present = new ClockedInstance(link, 'edge:')
    const counter = present.open(LIMITS[kind])
    const key = present.keyOf(counter)
    return { present, counter, key, old: new OldInstance(link, key, LIMITS[kind]) }
  }

  test.for(KINDS)('hand out a %s together once, to the token', async (kind) => {
    const { present, old, counter } = both(kind)
    let admitted = 0
    for (let i = 0; i < 60; i++) {
      tick()
      const fits = i % 2 === 0 ? (await old.take(3)).fits : (await present.take(4, counter)).outcome
      if (fits === true) admitted += i % 2 === 0 ? 3 : 4
    }
    expect(admitted).toBeGreaterThan(SIZE - 3)
    expect(admitted + (await present.left(counter))).toBe(SIZE)
    expect(await old.left()).toBe(await present.left(counter))
  })

  test.for(KINDS)('find in a %s what the other one settles and gives back', async (kind) => {
    const { present, old, counter } = both(kind)
    await old.take(40)
    tick()
    const { takenWallMs } = await present.take(50, counter)
    tick()
    await old.settle(30)
    expect([await present.left(counter), await old.left()]).toEqual([40, 40])
    await present.settle(counter, -15, takenWallMs)
    expect([await present.left(counter), await old.left()]).toEqual([25, 25])
    await present.settle(counter, 20, takenWallMs)
    const { wallMs } = await old.take(10)
    tick()
    await old.giveBack(10, wallMs)
    expect([await present.left(counter), await old.left()]).toEqual([45, 45])
  })

  test.for(KINDS)('agree on a %s that either has begun anew since a take: nothing of it goes back', async (kind) => {
    const { present, old, counter } = both(kind)
    const { wallMs } = await old.take(40)
    await redis.command('FLUSHALL')
    tick()
    await present.take(70, counter)
    await old.giveBack(40, wallMs)
    expect(await old.left()).toBe(30)
  })

  test.for(KINDS)('keep a reset of a %s in the record, though the old one does not heed it', async (kind) => {
    const { present, old, counter, key } = both(kind)
    await old.take(60)
    tick()
    await present.reset(counter)
    tick()
    // By its own count it has 40 left, and it gets no more than that.
    expect((await old.take(41)).fits).toBe(false)
    expect((await old.take(40)).fits).toBe(true)
    expect(await present.left(counter)).toBe(60)
    if (kind === 'bucket') expect(await redis.command('STRLEN', key)).toBe(40)
    // Another instance of this version learns of it all the same.
    const third = new ClockedInstance(link, 'edge:')
    expect(await third.left(counter)).toBe(60)
    tick()
    expect((await third.take(61, counter)).outcome).toBe(false)
    expect((await third.take(60, counter)).outcome).toBe(true)
    expect((await present.take(1, counter)).outcome).toBe(false)
  })

  test.for(KINDS)(
    'admit to a %s no more than the limit before a reset and the limit after it, whatever the old one settles',
    async (kind) => {
      const { present, old, counter } = both(kind)
      let used = 0
      await old.take(SIZE)
      tick()
      await present.reset(counter)
      tick()
      await present.take(SIZE, counter)
      used += SIZE
      // The old one has used 30 of what it took, and does not know that the rest is nobody's any more.
      used += 30
      await old.settle(SIZE - 30)
      for (let i = 0; i < SIZE; i++) {
        tick()
        if ((await present.take(1, counter)).outcome === true) used++
      }
      expect(used).toBeLessThanOrEqual(2 * SIZE)
    },
  )
})
