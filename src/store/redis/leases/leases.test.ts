import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FleetInstance, LeasedFleet } from '../../../../test/support/fleet/leased-fleet.ts'
import { RedisServer } from '../../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../../test/support/redis/redis-suite.ts'
import { bucketLimit } from '../../../../test/support/store/charging.ts'

const LEASE_MS = 1000
/** So much that no test comes near it. */
const AMPLE = bucketLimit(100, 1_000_000)

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

  test('answers a busy key from leases, with one call to Redis for twenty decisions or more', async () => {
    const fleet = await newFleet(0.25)
    const one = fleet.newInstance()
    await use(fleet, one, AMPLE, 2000)
    const before = fleet.calls
    expect(await use(fleet, one, AMPLE, 2000)).toBe(2000)
    expect(fleet.calls - before).toBeLessThanOrEqual(100)
    expect(one.decidedBy.lease).toBeGreaterThan(3500)
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
    await use(fleet, one, AMPLE, 1000)
    fleet.holdsCalls = true
    const answered = () => one.decidedBy.lease + two.decidedBy.lease
    // Both use it up together, while no answer comes.
    for (let before = -1; answered() > before; ) {
      before = answered()
      void one.take(one.open(AMPLE))
      void two.take(two.open(AMPLE))
    }
    expect(two.decidedBy.lease).toBeGreaterThan(10)
    expect(fleet.underWay.map(([action, , , cost, , , , , , , more]) => ({ action, cost, leases: more !== '0' }))).toEqual([
      { action: 'take', cost: '0', leases: true },
      { action: 'take', cost: '1', leases: false },
      { action: 'take', cost: '1', leases: false },
    ])
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

  test('is used up while Redis is away, and then the failure mode decides', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    await use(fleet, one, AMPLE, 1000)
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
    while (!fleet.underWay.some(([, , , cost]) => cost === '0')) await use(fleet, one, limit, 1)
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

  test('is never had for a rule that counts more than requests', async () => {
    const fleet = await newFleet()
    const one = fleet.newInstance()
    for (let i = 0; i < 50; i++) await finish(fleet, one.take(one.open(AMPLE, false)))
    expect(fleet.calls).toBe(50)
    expect(one.tokens.leased).toBe(0)
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

function take(fleet: LeasedFleet, one: FleetInstance, limit: Parameters<FleetInstance['open']>[0]) {
  return finish(fleet, one.take(one.open(limit)))
}

/** A take per millisecond; answers how many were admitted. */
async function use(fleet: LeasedFleet, one: FleetInstance, limit: Parameters<FleetInstance['open']>[0], times: number): Promise<number> {
  let admitted = 0
  for (let i = 0; i < times; i++) {
    await fleet.time.advance(1)
    void one.take(one.open(limit)).then(({ outcome }) => {
      if (outcome === true) admitted++
    })
  }
  await fleet.time.advance(1)
  return admitted
}

/** What the fleet has left, as an instance sees it that has nothing. */
async function left(fleet: LeasedFleet, limit: Parameters<FleetInstance['open']>[0]): Promise<number> {
  const stranger = fleet.newInstance()
  const { levels } = await finish(fleet, stranger.check(stranger.open(limit)))
  return levels[0]!
}

/** Calls to Redis take no time, but time must be told to go on. */
async function finish<Answer>(fleet: LeasedFleet, answer: Promise<Answer>): Promise<Answer> {
  await fleet.time.advance(0)
  return answer
}
