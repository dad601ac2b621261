import { afterAll, beforeAll, expect, test } from 'vitest'
import { LEASE_MS, use } from '../../../../test/support/fleet/lease-steps.ts'
import { LeasedFleet } from '../../../../test/support/fleet/leased-fleet.ts'
import { RedisServer } from '../../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../../test/support/redis/redis-suite.ts'
import { bucketLimit } from '../../../../test/support/store/charging.ts'

const SIZE = 1000
const LIMIT = bucketLimit(0.000_001, SIZE)

describeWithRedis('the own count of an instance', () => {
  let redis: RedisServer

  beforeAll(async () => {
    redis = await RedisServer.start()
  })
  afterAll(() => redis.close())

  const newFleet = () => LeasedFleet.start({ redis, leaseMs: LEASE_MS })

  test('is charged a lease when that is granted, and nothing when its tokens are used', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    for (let i = 0; i < 30; i++) {
      await use(fleet, one, LIMIT, 7)
      expect(one.ownLeft(one.open(LIMIT))).toBeCloseTo(SIZE - one.tokens.leased - one.decidedBy.redis, 1)
    }
    expect(one.decidedBy.lease).toBeGreaterThan(one.decidedBy.redis)
    expect(one.tokens.leased).toBeGreaterThan(one.decidedBy.lease)
  })

  test('gets unused tokens back, even if Redis is unreachable by then', async () => {
    for (const isUnreachable of [false, true]) {
      const fleet = await newFleet()
      const one = fleet.newInstance()
      const used = await use(fleet, one, LIMIT, 100)
      expect(one.ownLeft(one.open(LIMIT))).toBeLessThan(SIZE - used - 10)
      fleet.isUnreachable = isUnreachable
      await fleet.time.advance(LEASE_MS)
      await fleet.sweep(one)
      expect(one.ownLeft(one.open(LIMIT))).toBeCloseTo(SIZE - used, 1)
    }
  })

  test('gets no more of them back than refill has not replaced', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    const limit = bucketLimit(0.05, SIZE)
    await use(fleet, one, limit, 100)
    const held = one.tokens.leased - one.decidedBy.lease
    const before = one.ownLeft(one.open(limit))
    await fleet.time.advance(LEASE_MS)
    await fleet.sweep(one)
    const after = one.ownLeft(one.open(limit))
    expect(after - before).toBeGreaterThan(0.05 * LEASE_MS)
    expect(after).toBeLessThan(SIZE - 100 + 0.05 * LEASE_MS)
    expect(after - before).toBeLessThan(held + 1)
  })

  test('has no room for a lease that arrives when failure mode local has used it up', async () => {
    const fleet = await LeasedFleet.start({ redis, leaseMs: LEASE_MS, wayMs: () => 5, failureMode: 'local' })
    const one = fleet.newInstance()
    let admitted = await use(fleet, one, LIMIT, 100)
    const isRenewed = () => fleet.underWay.some(({ action, cost }) => action === 'take' && cost === 0)
    for (; !isRenewed(); admitted++) expect(await use(fleet, one, LIMIT, 1)).toBe(1)
    // Granted, and on its way back.
    await fleet.time.advance(6)
    fleet.isUnreachable = true
    const { leased } = one.tokens
    const asked = Array.from({ length: SIZE }, () => one.take(one.open(LIMIT)))
    await fleet.time.advance(5)
    expect(one.tokens.leased).toBeGreaterThan(leased)
    admitted += (await Promise.all(asked)).filter(({ outcome }) => outcome === true).length
    admitted += await use(fleet, one, LIMIT, 100)
    expect(admitted).toBe(SIZE)
  })

  test('is not charged a lease that has ended before it arrives', async () => {
    let wayMs = 0
    const fleet = await LeasedFleet.start({ redis, leaseMs: LEASE_MS, wayMs: () => wayMs })
    const one = fleet.newInstance()
    await use(fleet, one, LIMIT, 5)
    await fleet.time.advance(LEASE_MS)
    await fleet.sweep(one)
    const before = one.ownLeft(one.open(LIMIT))
    const { leased } = one.tokens
    wayMs = LEASE_MS
    void one.take(one.open(LIMIT))
    await fleet.time.advance(3 * LEASE_MS)
    expect(one.tokens.leased).toBeGreaterThan(leased)
    expect(one.ownLeft(one.open(LIMIT))).toBeCloseTo(before - 1, 1)
  })

  test('gets nothing back of a lease from before a reset that it knows', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    await use(fleet, one, LIMIT, 100)
    const done = one.reset(one.open(LIMIT))
    await fleet.time.advance(0)
    await done
    await use(fleet, one, LIMIT, 1)
    const before = one.ownLeft(one.open(LIMIT))
    await fleet.time.advance(LEASE_MS * 0.9)
    await fleet.sweep(one)
    expect(one.ownLeft(one.open(LIMIT))).toBeCloseTo(before, 1)
  })
})
