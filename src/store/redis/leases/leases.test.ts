import { afterAll, beforeAll, expect, test } from 'vitest'
import { AMPLE, finish, LEASE_MS, take, use } from '../../../../test/support/fleet/lease-steps.ts'
import { type FleetInstance, LeasedFleet } from '../../../../test/support/fleet/leased-fleet.ts'
import { RedisServer } from '../../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../../test/support/redis/redis-suite.ts'
import { bucketLimit } from '../../../../test/support/store/charging.ts'

describeWithRedis('a leased limit', () => {
  let redis: RedisServer

  beforeAll(async () => {
    redis = await RedisServer.start()
  })
  afterAll(() => redis.close())

  const newFleet = (wayMs = 0) => LeasedFleet.start({ redis, leaseMs: LEASE_MS, wayMs: () => wayMs })

  test('takes one token for a key that is seen once, and no more', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    expect(await take(fleet, one, bucketLimit(0.001, 10))).toMatchObject({ outcome: true, levels: [9] })
    expect(await left(fleet, bucketLimit(0.001, 10))).toBe(9)
    expect(one.leasesHeld).toBe(0)
  })

  test('gives a lone client its whole burst, and then no more', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    const limit = bucketLimit(0.000_001, 50)
    for (let i = 0; i < 50; i++) expect((await take(fleet, one, limit)).outcome).toBe(true)
    expect(await take(fleet, one, limit)).toMatchObject({ outcome: false })
  })

  test('remains what the own lease and the fleet have left', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    const limit = bucketLimit(0.000_001, 1000)
    for (let i = 1; i <= 20; i++) {
      await fleet.time.advance(1)
      const { levels } = await take(fleet, one, limit)
      expect(levels[0]).toBeCloseTo(1000 - i, 1)
    }
    expect(one.leasesHeld).toBeGreaterThan(0)
  })

  test('is renewed once at a time, whichever of the threads of a process finds it running out', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    const two = one.otherThread()
    await use(fleet, one, AMPLE, 300)
    fleet.holdsCalls = true
    const answered = () => one.decidedBy.lease + two.decidedBy.lease
    // Both use it up together, while no answer comes.
    for (let before = -1; answered() > before; ) {
      before = answered()
      void one.take(one.open(AMPLE))
      void two.take(two.open(AMPLE))
    }
    expect(two.decidedBy.lease).toBeGreaterThan(10)
    expect(fleet.underWay).toEqual([
      { action: 'take', cost: 0, leases: true },
      { action: 'take', cost: 1, leases: false },
      { action: 'take', cost: 1, leases: false },
    ])
  })

  test('is used up while Redis is away, and then the failure mode decides', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    await use(fleet, one, AMPLE, 300)
    fleet.isUnreachable = true
    const held = one.tokens.leased - one.decidedBy.lease
    expect(held).toBeGreaterThan(0)
    for (let i = 0; i < held; i++) expect((await take(fleet, one, AMPLE)).outcome).toBe(true)
    expect((await take(fleet, one, AMPLE)).outcome).toBe('unavailable')
  })

  test('goes back when it is idle, but for what the refill may have made up for', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    const limit = bucketLimit(0.001, 1000)
    await use(fleet, one, limit, 100)
    await fleet.time.advance(LEASE_MS * 0.7)
    await fleet.sweep(one)
    expect(one.leasesHeld).toBeGreaterThan(0)
    await fleet.time.advance(LEASE_MS * 0.1)
    await fleet.sweep(one)
    expect(one.leasesHeld).toBe(0)
    expect(one.tokens.given_back).toBe(one.tokens.leased - one.decidedBy.lease)
    expect(one.tokens.given_back).toBeGreaterThan(0)
    expect(await left(fleet, limit)).toBeCloseTo(900, -1)
  })

  test('goes back at the end of the thread that fetched it, and no other is fetched', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    const limit = bucketLimit(0.000_001, 1000)
    await use(fleet, one, limit, 100)
    const closed = one.leases.close()
    await fleet.time.advance(0)
    await closed
    expect(one.leasesHeld).toBe(0)
    expect(await left(fleet, limit)).toBeCloseTo(900, 1)
    const { calls } = fleet
    await use(fleet, one, limit, 10)
    expect(fleet.calls).toBe(calls + 10)
    expect(one.leasesHeld).toBe(0)
    expect(await left(fleet, limit)).toBeCloseTo(890, 1)
  })

  test('that is on its way at the end of its thread is waited for, and goes back', async () => {
    const fleet = await newFleet(5)
    const one = fleet.newInstance()
    const limit = bucketLimit(0.000_001, 1000)
    await use(fleet, one, limit, 100)
    while (!fleet.underWay.some(({ cost }) => cost === 0)) await use(fleet, one, limit, 1)
    let isClosed = false
    const closed = one.leases.close().then(() => {
      isClosed = true
    })
    await fleet.time.advance(9)
    expect(isClosed).toBe(false)
    await fleet.time.advance(20)
    await closed
    expect(one.tokens.leased - one.tokens.given_back).toBe(one.decidedBy.lease)
  })

  test('that ends with its instance is missing until it is refilled, and nothing else is', async () => {
    const fleet = await newFleet()
    const [one, two] = [fleet.newInstance(), fleet.newInstance()]
    const limit = bucketLimit(0.000_001, 100)
    await use(fleet, one, limit, 30)
    const lost = one.tokens.leased - one.decidedBy.lease
    expect(lost).toBeGreaterThan(0)
    expect(await use(fleet, two, limit, 100)).toBe(70 - lost)
  })

  test('that was refused for long is asked for again after a lease life, and the wait stays the one that was named', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    const limit = bucketLimit(0.0001, 1)
    await take(fleet, one, limit)
    expect(await take(fleet, one, limit)).toMatchObject({ outcome: false, waitsMs: [10_000] })
    await fleet.time.advance(LEASE_MS - 1)
    const { calls } = fleet
    expect(await take(fleet, one, limit)).toMatchObject({ outcome: false, waitsMs: [9001] })
    expect(fleet.calls).toBe(calls)
    await fleet.time.advance(1)
    expect(await take(fleet, one, limit)).toMatchObject({ outcome: false, waitsMs: [9000] })
    expect(fleet.calls).toBe(calls + 1)
  })

  test('keeps its token where another rule refuses the request', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    const limit = bucketLimit(0.000_001, 1000)
    await use(fleet, one, limit, 20)
    const counters = [one.open(limit), one.open(bucketLimit(0.000_001, 1), true, 'scarce')]
    const before = (await finish(fleet, one.take(...counters))).levels[0]!
    for (let i = 0; i < 5; i++) {
      const { outcome, waitsMs } = await finish(fleet, one.take(...counters))
      expect([outcome, waitsMs[0]]).toEqual([false, 0])
    }
    expect((await take(fleet, one, limit)).levels[0]).toBeCloseTo(before - 1, 1)
  })

  test('gives back its token where another rule refuses the request so late that the rest of the lease has gone back', async () => {
    let wayMs = 0
    const fleet = await LeasedFleet.start({ redis, leaseMs: LEASE_MS, wayMs: () => wayMs })
    const one = fleet.newInstance()
    const two = one.otherThread()
    const limit = bucketLimit(1e-9, 1000)
    const scarce = bucketLimit(1e-9, 1)
    await finish(fleet, one.take(one.open(scarce, true, 'scarce')))
    await use(fleet, one, limit, 100)
    await fleet.time.advance(LEASE_MS * 0.6)
    wayMs = LEASE_MS * 0.1
    const refused = two.take(two.open(limit), two.open(scarce, true, 'scarce'))
    await fleet.time.advance(LEASE_MS * 0.18)
    const swept = one.leases.sweep(fleet.time.nowMs())
    await fleet.time.advance(LEASE_MS * 0.3)
    await swept
    expect((await refused).outcome).toBe(false)
    wayMs = 0
    await fleet.sweep(one)
    expect(one.tokens.given_back).toBe(one.tokens.leased - one.decidedBy.lease)
    expect([one.tokens.lost, two.tokens.lost]).toEqual([0, 0])
    expect(await left(fleet, limit)).toBeCloseTo(900, 1)
  })

  test('is never had for a rule that counts more than requests', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    for (let i = 0; i < 50; i++) await finish(fleet, one.take(one.open(AMPLE, false)))
    expect(fleet.calls).toBe(50)
    expect(one.tokens.leased).toBe(0)
  })
})

/** What the fleet has left, as an instance sees it that has nothing. */
async function left(fleet: LeasedFleet, limit: Parameters<FleetInstance['open']>[0]): Promise<number> {
  const stranger = fleet.newInstance()
  const { levels } = await finish(fleet, stranger.check(stranger.open(limit)))
  return levels[0]!
}
