import { beforeAll, beforeEach, expect, test } from 'vitest'
import { LeasedFleet } from '../../../test/support/fleet/leased-fleet.ts'
import { ClockedInstance } from '../../../test/support/redis/clocked-instance.ts'
import { ClockedLink } from '../../../test/support/redis/clocked-link.ts'
import { usableLink } from '../../../test/support/redis/recorded-link.ts'
import { type RedisServer, runningRedis } from '../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../test/support/redis/redis-suite.ts'
import { thisSuite } from '../../../test/support/service/suite-owner.ts'
import { bucketLimit, inFlightLimit } from '../../../test/support/store/charging.ts'
import { LinkError } from './link/call.ts'

const SLICE_MS = 1000
const HOLD_MS = 8 * SLICE_MS
const START_MS = Date.UTC(2026, 2, 7, 12)
const LIMIT = inFlightLimit(3, SLICE_MS)

describeWithRedis('requests in flight over a fleet', () => {
  const suite = thisSuite()
  let redis: RedisServer
  let link: ClockedLink
  let prefix = ''
  let stores = 0

  beforeAll(async () => {
    redis = await runningRedis({}, suite)
    link = new ClockedLink((await usableLink(redis.url, 5000, suite)).link)
  })
  beforeEach(async () => {
    await redis.command('FLUSHALL')
    passTo(0)
    prefix = `edge:${stores++}:`
  })

  const passTo = (ms: number): void => {
    link.nowMs = ms
    link.wallMs = START_MS + ms
  }
  const newInstance = (failureMode: 'local' | 'closed' | 'open' = 'closed') => new ClockedInstance(link, prefix, { failureMode })

  test('are one number for all instances, and any that ends makes room for any other', async () => {
    const [one, two] = [newInstance(), newInstance()]
    const counter = one.open(LIMIT)
    const { taken } = await one.take(1, counter)
    await two.take(1, counter)
    await two.take(1, counter)
    expect((await one.take(1, counter)).outcome).toBe(false)
    await one.release(counter, taken)
    expect((await two.take(1, counter)).outcome).toBe(true)
    expect((await one.take(1, counter)).outcome).toBe(false)
  })

  test('of an instance that died end within their time, and those of the others stay while they are renewed', async () => {
    const [dead, alive] = [newInstance(), newInstance()]
    const counter = alive.open(LIMIT)
    await dead.take(1, counter)
    await dead.take(1, counter)
    let { taken } = await alive.take(1, counter)
    for (let ms = 2000; ms < HOLD_MS; ms += 2000) {
      passTo(ms)
      taken = await alive.renew(counter, taken)
      expect((await alive.take(1, counter)).outcome).toBe(false)
    }
    passTo(HOLD_MS)
    expect(await alive.left(counter)).toBe(2)
    await alive.release(counter, taken)
    expect(await alive.left(counter)).toBe(3)
  })

  test('are counted by the clock of Redis, whatever that of an instance says', async () => {
    const [slow, fast] = [newInstance(), newInstance()]
    ;[slow.aheadMs, fast.aheadMs] = [-600_000, 600_000]
    const counter = slow.open(LIMIT)
    const first = await slow.take(1, counter)
    const second = await fast.take(1, counter)
    expect([first, second].map(({ takenWallMs }) => takenWallMs)).toEqual([START_MS, START_MS])
    passTo(3000)
    const renewed = [await slow.renew(counter, first.taken), await fast.renew(counter, second.taken)]
    expect(renewed).toMatchObject(Array(2).fill({ wallMs: START_MS + 3000, from: 'shared' }))
    passTo(HOLD_MS + 1000)
    expect(await newInstance().left(counter)).toBe(1)
    await slow.release(counter, renewed[0]!)
    await fast.release(counter, renewed[1]!)
    // Their own counts are as free as Redis: nothing is rejected for what was released.
    for (const each of [slow, fast, slow]) expect((await each.take(1, counter)).outcome).toBe(true)
  })

  test('whose take got no reply end with their slice', async () => {
    const one = newInstance()
    const counter = one.open(LIMIT)
    one.onWayBack = async () => new LinkError('unknown', 'timeout', 'no reply')
    expect((await one.take(1, counter)).outcome).toBe('unavailable')
    one.onWayBack = () => undefined
    expect(await one.left(counter)).toBe(2)
    passTo(HOLD_MS)
    expect(await one.left(counter)).toBe(3)
  })

  test.each(['local', 'open', 'closed'] as const)(
    'while Redis is away are renewed in the own counts, and in Redis as soon as it is back: failure mode %s',
    async (failureMode) => {
      const [one, other] = [newInstance(failureMode), newInstance()]
      const counter = one.open(LIMIT)
      let { taken } = await one.take(1, counter)
      one.onWayOut = async () => new LinkError('not_sent', 'unreachable', 'Redis is away')
      for (const ms of [2500, 5000, 7500, 10_000]) {
        passTo(ms)
        taken = await one.renew(counter, taken)
        expect([taken.from, one.ownLeft(counter)]).toEqual([ms < HOLD_MS / 2 ? 'shared' : 'local', 2])
      }
      expect(await other.left(counter)).toBe(3)
      one.onWayOut = () => undefined
      taken = await one.renew(counter, taken)
      expect([taken.from, one.ownLeft(counter), await other.left(counter)]).toEqual(['shared', 2, 2])
      await one.release(counter, taken)
      expect([one.ownLeft(counter), await other.left(counter)]).toEqual([3, 3])
    },
  )

  test('count once where a renewal was not sent and the next one is, and are gone with their release', async () => {
    const [one, other] = [newInstance(), newInstance()]
    const counter = one.open(LIMIT)
    let { taken } = await one.take(1, counter)
    one.onWayOut = async () => new LinkError('not_sent', 'unreachable', 'Redis is away')
    passTo(2000)
    taken = await one.renew(counter, taken)
    one.onWayOut = () => undefined
    passTo(4000)
    taken = await one.renew(counter, taken)
    expect([one.ownLeft(counter), await other.left(counter)]).toEqual([2, 2])
    await one.release(counter, taken)
    expect([one.ownLeft(counter), await other.left(counter)]).toEqual([3, 3])
  })

  test('are limited by the own counts while Redis is away, those of before included', async () => {
    const one = newInstance('local')
    const counter = one.open(LIMIT)
    const { taken } = await one.take(1, counter)
    await one.take(1, counter)
    one.onWayOut = async () => new LinkError('not_sent', 'unreachable', 'Redis is away')
    expect((await one.take(1, counter)).outcome).toBe(true)
    expect(await one.take(1, counter)).toMatchObject({ outcome: false, waitsMs: [1000] })
    await one.release(counter, taken)
    expect((await one.take(1, counter)).outcome).toBe(true)
    expect((await one.take(1, counter)).outcome).toBe(false)
  })

  test('that passed unseen while Redis was away count from their first renewal on', async () => {
    const [one, other] = [newInstance('open'), newInstance()]
    const counter = one.open(LIMIT)
    one.onWayOut = async () => new LinkError('not_sent', 'unreachable', 'Redis is away')
    const { taken, outcome } = await one.take(1, counter)
    expect([outcome, taken.from]).toEqual([true, 'none'])
    one.onWayOut = () => undefined
    await other.take(1, counter)
    const renewed = await one.renew(counter, taken)
    expect(await other.left(counter)).toBe(1)
    await one.release(counter, renewed)
    expect(await other.left(counter)).toBe(2)
  })

  test('that a Redis without its data no longer knows are there again when they are renewed', async () => {
    const [one, other] = [newInstance(), newInstance()]
    const counter = one.open(LIMIT)
    const held = [await one.take(1, counter), await one.take(1, counter)]
    await redis.command('FLUSHALL')
    // An instance knows its own.
    held.push(await one.take(1, counter))
    expect(held.map(({ outcome }) => outcome)).toEqual([true, true, true])
    expect((await one.take(1, counter)).outcome).toBe(false)
    expect(await other.left(counter)).toBe(2)
    passTo(2000)
    const renewed = await Promise.all(held.map(({ taken }) => one.renew(counter, taken)))
    expect(await other.left(counter)).toBe(0)
    for (const taken of renewed) await one.release(counter, taken)
    expect(await other.left(counter)).toBe(3)
  })

  test('leave nothing behind in Redis when their time is over', async () => {
    const one = newInstance()
    const counter = one.open(LIMIT)
    const { taken } = await one.take(1, counter)
    passTo(1500)
    await one.take(1, counter)
    expect(await redis.command('HLEN', one.keyOf(counter))).toBe(2)
    await one.release(counter, taken)
    expect(await redis.command('HLEN', one.keyOf(counter))).toBe(1)
    passTo(3 * HOLD_MS)
    await one.take(1, counter)
    expect(await redis.command('HKEYS', one.keyOf(counter))).toEqual([String((START_MS + 3 * HOLD_MS) / SLICE_MS)])
  })

  test('are asked for beside tokens that are leased, all or nothing', async () => {
    const fleet = await LeasedFleet.start({ redis, leaseMs: 1000, wayMs: () => 0 })
    const one = fleet.newInstance()
    const [bucket, holds] = [one.open(bucketLimit(0.000_001, 1000)), one.open(inFlightLimit(2, 60_000), false, 'holds')]
    const take = async () => {
      const answer = one.take(bucket, holds)
      await fleet.time.advance(1)
      return answer
    }
    for (let i = 0; i < 40; i++) {
      void one.take(bucket)
      await fleet.time.advance(1)
    }
    expect(one.leasesHeld).toBeGreaterThan(0)
    expect([(await take()).outcome, (await take()).outcome]).toEqual([true, true])
    const tokens = one.ownLeft(bucket)
    for (let i = 0; i < 5; i++) expect(await take()).toMatchObject({ outcome: false, waitsMs: [0, 1000] })
    expect(one.ownLeft(bucket)).toBeCloseTo(tokens, 3)
  })
})
