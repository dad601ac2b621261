import { afterAll, beforeAll, expect, test } from 'vitest'
import { AMPLE, finish, LEASE_MS, take, use } from '../../../../test/support/fleet/lease-steps.ts'
import { LeasedFleet } from '../../../../test/support/fleet/leased-fleet.ts'
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

  test('answers a busy key from leases, with one call to Redis for twenty decisions or more', async () => {
    const fleet = await newFleet(0.25)
    const one = fleet.newInstance()
    await use(fleet, one, AMPLE, 2000)
    const before = fleet.calls
    expect(await use(fleet, one, AMPLE, 2000)).toBe(2000)
    expect(fleet.calls - before).toBeLessThanOrEqual(100)
    expect(one.decidedBy.lease).toBeGreaterThan(3500)
  })

  test('is over after its life, whatever was renewed meanwhile', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    await use(fleet, one, AMPLE, 1000)
    expect((await take(fleet, one, AMPLE)).outcome).toBe(true)
    fleet.isUnreachable = true
    await fleet.time.advance(LEASE_MS)
    expect((await take(fleet, one, AMPLE)).outcome).toBe('unavailable')
  })

  test('that ended before it could go back is counted as lost', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    for (let stop = 0; stop < 3; stop++) {
      await use(fleet, one, AMPLE, 500)
      // The process stands still for so long that no sweep comes in between.
      await fleet.time.advance(LEASE_MS)
    }
    await use(fleet, one, AMPLE, 500)
    await fleet.time.advance(LEASE_MS)
    await fleet.sweep(one)
    const { leased, given_back: givenBack, lost } = one.tokens
    expect(one.leasesHeld).toBe(0)
    expect(lost).toBeGreaterThan(0)
    expect(one.decidedBy.lease + givenBack + lost).toBe(leased)
  })

  test('that was refused is refused without a call until the moment that Redis named', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    const limit = bucketLimit(0.002, 1)
    await take(fleet, one, limit)
    expect(await take(fleet, one, limit)).toMatchObject({ outcome: false, waitsMs: [500] })
    const { calls } = fleet
    await fleet.time.advance(499)
    for (let i = 0; i < 1000; i++) expect(await take(fleet, one, limit)).toMatchObject({ outcome: false, waitsMs: [1] })
    expect(fleet.calls).toBe(calls)
    expect(one.decidedBy.refusal).toBe(1000)
    await fleet.time.advance(1)
    expect((await take(fleet, one, limit)).outcome).toBe(true)
  })

  test('keeps its token where Redis does not answer for another rule', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    await use(fleet, one, AMPLE, 100)
    const held = one.tokens.leased - one.decidedBy.lease
    fleet.isUnreachable = true
    const counters = [one.open(AMPLE), one.open(AMPLE, true, 'other')]
    for (let i = 0; i < held * 2; i++) expect((await finish(fleet, one.take(...counters))).outcome).toBe('unavailable')
    for (let i = 0; i < held; i++) expect((await take(fleet, one, AMPLE)).outcome).toBe(true)
  })

  test('is checked without a call where a lease or a refusal answers, and nothing is taken', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    await use(fleet, one, AMPLE, 100)
    const { calls } = fleet
    for (let i = 0; i < 1000; i++) expect((await one.check(one.open(AMPLE))).outcome).toBe(true)
    const scarce = one.open(bucketLimit(0.001, 1), true, 'scarce')
    await finish(fleet, one.take(scarce))
    expect((await finish(fleet, one.take(scarce))).outcome).toBe(false)
    for (let i = 0; i < 10; i++) expect(await one.check(scarce)).toMatchObject({ outcome: false, waitsMs: [1000] })
    expect(fleet.calls).toBe(calls + 2)
  })

  test.each([0, 1, 5])('admits the same after %i checks: what they were refused is not remembered', async (checks) => {
    const fleet = await newFleet()
    const [one, other] = [fleet.newInstance(), fleet.newInstance()]
    const limit = bucketLimit(0.1, 200)
    while ((await take(fleet, other, limit)).outcome === true);
    for (let i = 0; i < checks; i++) expect((await finish(fleet, one.check(one.open(limit)))).outcome).toBe(false)
    await fleet.time.advance(11)
    let admitted = 0
    for (let i = 0; i < 14; i++) {
      if ((await take(fleet, one, limit)).outcome === true) admitted++
      await fleet.time.advance(10)
    }
    expect(admitted).toBe(14)
  })

  test('is not drained where the clock of Redis goes back after a reset', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    const limit = bucketLimit(1e-9, 500)
    await use(fleet, one, limit, 20)
    await finish(fleet, one.reset(one.open(limit)))
    fleet.behindMs = 2000
    let admitted = 0
    for (let i = 0; i < 700; i++) {
      if ((await take(fleet, one, limit)).outcome === true) admitted++
      await fleet.time.advance(1)
      if (i % 100 === 0) await fleet.sweep(one)
    }
    expect(admitted).toBe(500)
  })

  test('begins without leases when it is changed', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    await use(fleet, one, AMPLE, 1000)
    const { calls } = fleet
    await take(fleet, one, bucketLimit(100, 999_999))
    expect(fleet.calls).toBe(calls + 1)
  })

  test.each([
    { demand: 'just what there is', perMs: 0.25 },
    { demand: 'three times what there is', perMs: 0.75 },
  ])('is used to 95 % and more by four instances that want $demand, with few calls', async ({ perMs }) => {
    const fleet = await newFleet(0.25)
    const limit = bucketLimit(1, 200)
    const all = Array.from({ length: 4 }, () => fleet.newInstance())
    let admitted = 0
    let asked = 0
    const seconds = 3
    for (let ms = 0; ms < seconds * 1000; ms++) {
      await fleet.time.advance(1)
      if (ms % (LEASE_MS / 8) === 0) for (const one of all) void one.leases.sweep(fleet.time.nowMs())
      for (; asked < (ms + 1) * perMs * 4; asked++) {
        // Not evenly: in turns of 50, one of them gets most of it.
        const one = all[asked % 5 === 0 ? asked % 4 : Math.floor(asked / 50) % 4]!
        void one.take(one.open(limit)).then(({ outcome }) => {
          if (outcome === true) admitted++
        })
      }
    }
    await fleet.time.advance(10)
    expect(admitted).toBeGreaterThanOrEqual(seconds * 1000 * 0.95)
    expect(admitted).toBeLessThanOrEqual(200 + (seconds * 1000 + LEASE_MS))
    expect(fleet.calls / asked).toBeLessThan(0.1)
  })
})
