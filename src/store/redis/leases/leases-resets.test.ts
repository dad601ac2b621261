import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FleetInstance, LeasedFleet } from '../../../../test/support/fleet/leased-fleet.ts'
import { RedisServer } from '../../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../../test/support/redis/redis-suite.ts'
import { bucketLimit } from '../../../../test/support/store/charging.ts'

const LEASE_MS = 1000
const SIZE = 1000
const LIMIT = bucketLimit(0.000_001, SIZE)

describeWithRedis('a reset of a leased limit', () => {
  let redis: RedisServer

  beforeAll(async () => {
    redis = await RedisServer.start()
  })
  afterAll(() => redis.close())

  const newFleet = () => LeasedFleet.start({ redis, leaseMs: LEASE_MS })

  test('ends the leases of whoever resets it, in all threads, and their tokens do not go back', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    const thread = one.otherThread()
    await use(fleet, one, 200)
    expect(await held(fleet, thread)).toBe(true)
    const unused = one.tokens.leased - one.decidedBy.lease - thread.decidedBy.lease
    await reset(fleet, one)
    expect(one.tokens.lost).toBe(unused)
    expect(await left(fleet)).toBe(SIZE)
    const { leased } = one.tokens
    const asked = one.decidedBy.redis + thread.decidedBy.redis
    await use(fleet, thread, 1)
    await use(fleet, one, 1)
    expect(one.decidedBy.redis + thread.decidedBy.redis).toBe(asked + 2)
    await fleet.time.advance(LEASE_MS)
    await fleet.sweep(one)
    expect(one.leasesHeld).toBe(0)
    // Only what was leased since.
    expect(one.tokens.given_back).toBe(one.tokens.leased - leased)
    expect(await left(fleet)).toBe(SIZE - 2)
  })

  test('under an override ends the leases of the limit from before it too: when it is over, they are not there', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    await use(fleet, one, 200)
    expect(await held(fleet, one)).toBe(true)
    await reset(fleet, one, one.open(bucketLimit(0.000_001, 2 * SIZE)))
    expect(await held(fleet, one)).toBe(false)
  })

  test('ends a refusal that is remembered', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    await use(fleet, one, SIZE)
    expect(await use(fleet, one, 1)).toBe(0)
    const { refusal } = one.decidedBy
    expect(await use(fleet, one, 1)).toBe(0)
    expect(one.decidedBy.refusal).toBe(refusal + 1)
    await reset(fleet, one)
    expect(await use(fleet, one, 10)).toBe(10)
  })

  test('is heard of by another instance within the life of a lease, be it covered or refused until then', async () => {
    for (const used of [200, SIZE + 1]) {
      const fleet = await newFleet()
      const [one, two] = [fleet.newInstance(), fleet.newInstance()]
      await use(fleet, two, used)
      await reset(fleet, one)
      await fleet.time.advance(LEASE_MS)
      expect(await use(fleet, two, 10)).toBe(10)
      expect(await left(fleet)).toBeGreaterThanOrEqual(SIZE - 10 - two.tokens.leased)
      await fleet.time.advance(LEASE_MS)
      await fleet.sweep(two)
      expect(two.ownLeft(two.open(LIMIT))).toBeCloseTo(SIZE - 10, 0)
    }
  })

  test('is heard of with a renewal, and the leases of before are not used any more', async () => {
    const fleet = await newFleet()
    const [one, two] = [fleet.newInstance(), fleet.newInstance()]
    await use(fleet, two, 200)
    await reset(fleet, one)
    const before = two.tokens.lost
    // In the background of decisions that leases cover.
    for (let i = 0; i < 400 && two.tokens.lost === before; i++) await use(fleet, two, 1)
    expect(two.tokens.lost).toBeGreaterThan(before)
    expect(two.decidedBy.redis).toBeLessThan(20)
  })

  test('makes a lease void that was granted before it and is here after it', async () => {
    let wayMs = 5
    const fleet = await LeasedFleet.start({ redis, leaseMs: LEASE_MS, wayMs: () => wayMs })
    const one = fleet.newInstance()
    const thread = one.otherThread()
    await use(fleet, one, 100)
    const isRenewed = () => fleet.underWay.some(({ action, cost }) => action === 'take' && cost === 0)
    for (; !isRenewed(); await fleet.time.advance(1)) void one.take(one.open(LIMIT))
    // Granted, and on its way back.
    await fleet.time.advance(6)
    expect(isRenewed()).toBe(true)
    wayMs = 0
    await reset(fleet, thread)
    const lost = one.tokens.lost + thread.tokens.lost
    const { leased } = one.tokens
    const { leasesHeld } = one
    await fleet.time.advance(20)
    expect(one.tokens.leased).toBeGreaterThan(leased)
    expect(one.leasesHeld).toBe(leasesHeld)
    expect(one.tokens.lost + thread.tokens.lost - lost).toBe(one.tokens.leased - leased)
    expect(await left(fleet)).toBe(SIZE)
  })
})

/** How many of so many requests pass, one after the other, a millisecond apart. */
async function use(fleet: LeasedFleet, one: FleetInstance, times: number): Promise<number> {
  let passed = 0
  for (let i = 0; i < times; i++) {
    await fleet.time.advance(1)
    void one.take(one.open(LIMIT)).then(({ outcome }) => {
      if (outcome === true) passed++
    })
  }
  await fleet.time.advance(1)
  return passed
}

async function held(fleet: LeasedFleet, one: FleetInstance): Promise<boolean> {
  const { lease } = one.decidedBy
  await use(fleet, one, 1)
  return one.decidedBy.lease === lease + 1
}

async function reset(fleet: LeasedFleet, one: FleetInstance, counter = one.open(LIMIT)): Promise<void> {
  await fleet.time.advance(1)
  const done = one.reset(counter)
  await fleet.time.advance(0)
  await done
}

/** What Redis has left, for an instance that has taken nothing. */
async function left(fleet: LeasedFleet): Promise<number> {
  await fleet.time.advance(1)
  const one = fleet.newInstance()
  const checked = one.check(one.open(LIMIT))
  await fleet.time.advance(0)
  return Math.round((await checked).levels[0]!)
}
