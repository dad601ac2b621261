import { expect, test } from 'vitest'
import { type FleetInstance, LeasedFleet } from '../support/fleet/leased-fleet.ts'
import { type RedisServer, runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { bucketLimit } from '../support/store/charging.ts'

const EVENLY = [0.25, 0.25, 0.25, 0.25]
const UNEVENLY = [0.7, 0.1, 0.1, 0.1]
const LEASE_MS = 1000
const SWEEP_MS = LEASE_MS / 8
/** How long a call takes each way. */
const WAY_MS = 0.3
/** The first burst is no part of what a limit admits in the long run, and leases grow meanwhile. */
const SETTLING_MS = 2000
const MEASURED_MS = 4000
/** A key costs an instance two in a lease's life, however often it comes; where several ask at once, some more. */
const MAX_CALLS_PER_LIFE = 3

interface Offer {
  readonly burst: number
  readonly perSecond: number
  /** Of the limit, from all callers together. */
  readonly load: number
  /** What each instance gets of it. */
  readonly shares: readonly number[]
}

interface Yield {
  readonly admitted: number
  readonly rejected: number
  /** What one bucket would have admitted of the same questions. */
  readonly ideal: number
  readonly calls: number
}

describeWithRedis('four instances that lease from one Redis', () => {
  test.each([
    { burst: 50, perSecond: 50 },
    { burst: 5, perSecond: 50 },
    { burst: 200, perSecond: 200 },
    { burst: 20, perSecond: 200 },
    { burst: 200, perSecond: 2000 },
  ])('admit at least 95 % of $perSecond/s, burst $burst, under steady load, however it is spread', async (limit) => {
    const redis = await runningRedis()
    for (const shares of [EVENLY, UNEVENLY]) {
      const { admitted, ideal } = await yieldOf(redis, { ...limit, load: 1.75, shares })
      expect(admitted / ideal, `spread ${shares.join(':')}`).toBeGreaterThanOrEqual(0.95)
    }
  })

  test.each([
    { burst: 300, perSecond: 300 },
    { burst: 1500, perSecond: 1500 },
  ])('reject nothing of $perSecond/s while less is asked for, and seldom ask Redis', async (limit) => {
    const { admitted, rejected, calls } = await yieldOf(await runningRedis(), { ...limit, load: 0.8, shares: UNEVENLY })
    expect(rejected).toBe(0)
    expect(admitted).toBeGreaterThan(0)
    expect(calls).toBeLessThanOrEqual((MAX_CALLS_PER_LIFE * UNEVENLY.length * MEASURED_MS) / LEASE_MS)
  })
})

/** Steady questions to all instances, by a simulated clock: what comes of them does not depend on how fast this machine is. */
async function yieldOf(redis: RedisServer, { burst, perSecond, load, shares }: Offer): Promise<Yield> {
  const fleet = await LeasedFleet.start({ redis, leaseMs: LEASE_MS, wayMs: () => WAY_MS })
  const limit = bucketLimit(perSecond / 1000, burst)
  const lanes = shares.map((share, i) => ({
    instance: fleet.newInstance(),
    periodMs: 1000 / (perSecond * load * share),
    phase: i / shares.length,
  }))
  const questions = lanes
    .flatMap(({ instance, periodMs, phase }) =>
      Array.from({ length: Math.floor((SETTLING_MS + MEASURED_MS) / periodMs) }, (_, n) => ({ atMs: (n + phase) * periodMs, instance })),
    )
    .sort((a, b) => a.atMs - b.atMs)
  const counts = { admitted: 0, rejected: 0 }
  const ask = async (instance: FleetInstance, isMeasured: boolean): Promise<void> => {
    const { outcome } = await instance.take(instance.open(limit))
    if (isMeasured) counts[outcome === true ? 'admitted' : 'rejected']++
  }
  let ideal = 0
  let level = burst
  let nowMs = 0
  let sweepMs = SWEEP_MS
  let callsBefore = 0
  for (const { atMs, instance } of questions) {
    for (; sweepMs <= atMs; sweepMs += SWEEP_MS) {
      await fleet.time.advance(sweepMs - nowMs)
      level = Math.min(burst, level + ((sweepMs - nowMs) * perSecond) / 1000)
      nowMs = sweepMs
      for (const lane of lanes) void lane.instance.leases.sweep(fleet.time.nowMs())
    }
    await fleet.time.advance(atMs - nowMs)
    level = Math.min(burst, level + ((atMs - nowMs) * perSecond) / 1000)
    nowMs = atMs
    const isMeasured = atMs >= SETTLING_MS
    if (!isMeasured) callsBefore = fleet.calls
    if (level >= 1) {
      level--
      if (isMeasured) ideal++
    }
    void ask(instance, isMeasured)
  }
  await fleet.time.advance(LEASE_MS)
  return { ...counts, ideal, calls: fleet.calls - callsBefore }
}
