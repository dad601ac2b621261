import fc from 'fast-check'
import { expect, test } from 'vitest'
import { BUCKET } from '../../src/limiter/limit.ts'
import { type FleetInstance, LeasedFleet } from '../support/fleet/leased-fleet.ts'
import { type RedisServer, runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { runs } from '../support/run/property-runs.ts'
import { bucketLimit } from '../support/store/charging.ts'

interface Load {
  readonly instances: number
  readonly leaseMs: number
  readonly tokensPerMs: number
  readonly burst: number
  /** How long a call takes each way. */
  readonly wayMs: number
  readonly steps: readonly Step[]
}

/** After a pause, an instance is asked a number of times; or gives back all that it has; or dies with all that it has. */
interface Step {
  readonly pauseMs: number
  readonly instance: number
  readonly what: 'ask' | 'close' | 'die'
  readonly times: number
}

/** After a pause, one of two threads of an instance is asked a number of times; or Redis loses its data, or is unreachable, or is back. */
interface Mishap {
  readonly pauseMs: number
  readonly thread: number
  readonly what: 'ask' | 'forget' | 'leave' | 'return'
  readonly times: number
}

/** At some time, tokens are leased, or all that are held are used, or the oldest lease is given back. */
interface Move {
  readonly pauseMs: number
  readonly what: 'lease' | 'use' | 'give_back'
  readonly tokens: number
}

/** Half of the bucket is out while it fills up; then it is emptied, and the half comes back, to be leased once more. */
const BACK_WHEN_FULL: readonly Move[] = [
  { pauseMs: 0, what: 'lease', tokens: 10 },
  { pauseMs: 50, what: 'lease', tokens: 20 },
  { pauseMs: 0, what: 'give_back', tokens: 0 },
  { pauseMs: 0, what: 'lease', tokens: 20 },
  { pauseMs: 50, what: 'lease', tokens: 20 },
  { pauseMs: 49, what: 'lease', tokens: 20 },
  { pauseMs: 0, what: 'use', tokens: 0 },
]

/** Rounding, on sums of thousands of tokens. */
const SLACK = 1e-6

describeWithRedis('leases from one bucket', () => {
  test('never admit more in a window than the burst and the refill of the window and a lease life', async () => {
    const redis = await runningRedis()
    await fc.assert(
      fc.asyncProperty(loads(), (load) => holdsTheBound(redis, load)),
      { numRuns: runs(2) },
    )
  })

  // By its own count, to which leases are charged when they are granted.
  test('never let an instance admit more than that, though Redis loses its data and is unreachable at any time', async () => {
    const redis = await runningRedis()
    const anyMishaps = fc.array(mishaps(), { minLength: 20, maxLength: 150 })
    await fc.assert(
      fc.asyncProperty(anyMishaps, fc.constantFrom(0, 3, 20), fc.constantFrom(0, 0.02, 0.2), (all, wayMs, rate) =>
        holdsByItself(redis, all, wayMs, rate),
      ),
      { numRuns: runs(4) },
    )
  })

  // Whatever sizes leases have: what the refill has made up for must not come back, or a token would be there twice.
  test('could not admit more, were they of any size and used and given back at any time of their lives', async () => {
    const anyMoves = fc.array(moves(), { minLength: 5, maxLength: 40 })
    const redis = await runningRedis()
    await fc.assert(
      fc.asyncProperty(anyMoves, (all) => holdAtAnySize(redis, all)),
      { numRuns: runs(6), examples: [[BACK_WHEN_FULL]] },
    )
  })
})

async function holdAtAnySize(redis: RedisServer, all: readonly Move[]): Promise<void> {
  const [leaseMs, tokensPerMs, burst] = [100, 0.2, 20]
  const fleet = await LeasedFleet.start({ redis, leaseMs })
  const run = async (action: string, ...numbers: readonly number[]) =>
    (await fleet.call(fleet.scripts.buckets, ['bucket'], [action, numbers])) as readonly number[]
  const admittedMs: number[] = []
  let held: { left: number; endMs: number; wallMs: number }[] = []
  for (const { what, pauseMs, tokens } of all) {
    await fleet.time.advance(pauseMs)
    const nowMs = fleet.time.nowMs()
    held = held.filter(({ endMs }) => endMs > nowMs)
    if (what === 'lease') {
      // Redis leases half of what is there at a time.
      let wanted = tokens
      for (let got = 1; got > 0 && wanted > 0; wanted -= got) {
        got = (await run('take', 0, BUCKET, 0, burst, burst, 0, 0, tokensPerMs, 0, wanted, 0, 0, burst))[3]!
        held.push({ left: got, endMs: nowMs + leaseMs, wallMs: fleet.time.wallMs() })
      }
    } else if (what === 'use') {
      for (const lease of held) while (lease.left-- > 0) admittedMs.push(nowMs)
      held = []
    } else if (held.length > 0) {
      const { left, wallMs } = held.shift()!
      await run('give_back', 0, BUCKET, left, burst, 0, wallMs, 0, tokensPerMs, 0, 1, 0, 0, burst)
    }
  }
  expectBound(admittedMs, burst + tokensPerMs * leaseMs, tokensPerMs)
}

async function holdsTheBound(redis: RedisServer, { instances, leaseMs, tokensPerMs, burst, wayMs, steps }: Load): Promise<void> {
  const fleet = await LeasedFleet.start({ redis, leaseMs, wayMs: () => wayMs })
  const { time } = fleet
  const limit = bucketLimit(tokensPerMs, burst)
  const all = Array.from({ length: instances }, () => fleet.newInstance())
  const admittedMs: number[] = []
  const ask = async (instance: FleetInstance) => {
    const { outcome } = await instance.take(instance.open(limit))
    if (outcome === true) admittedMs.push(time.nowMs())
  }
  for (const { pauseMs, instance: number, what, times } of steps) {
    for (let restMs = pauseMs; restMs > 0; restMs -= leaseMs / 8) {
      await time.advance(Math.min(restMs, leaseMs / 8))
      for (const instance of all) void instance.leases.sweep(time.nowMs())
    }
    const i = number % instances
    if (what === 'ask') for (let n = 0; n < times; n++) void ask(all[i]!)
    else if (what === 'close') void all[i]!.leases.close()
    if (what !== 'ask') all[i] = fleet.newInstance()
  }
  await time.advance(leaseMs)
  expectBound(admittedMs, burst + tokensPerMs * leaseMs, tokensPerMs)
}

async function holdsByItself(redis: RedisServer, all: readonly Mishap[], wayMs: number, tokensPerMs: number): Promise<void> {
  const [leaseMs, burst] = [200, 60]
  const fleet = await LeasedFleet.start({ redis, leaseMs, wayMs: () => wayMs, failureMode: 'local' })
  const { time } = fleet
  const limit = bucketLimit(Math.max(tokensPerMs, 1e-9), burst)
  const first = fleet.newInstance()
  const threads = [first, first.otherThread()]
  const admittedMs: number[] = []
  for (const { pauseMs, thread, what, times } of all) {
    for (let restMs = pauseMs; restMs > 0; restMs -= leaseMs / 8) {
      await time.advance(Math.min(restMs, leaseMs / 8))
      for (const each of threads) void each.leases.sweep(time.nowMs())
    }
    if (what === 'forget') await fleet.forget()
    else if (what !== 'ask') fleet.isUnreachable = what === 'leave'
    else {
      const asked = threads[thread]!
      for (let n = 0; n < times; n++) {
        void asked.take(asked.open(limit)).then(({ outcome }) => {
          if (outcome === true) admittedMs.push(time.nowMs())
        })
      }
    }
  }
  await time.advance(leaseMs)
  expectBound(admittedMs, burst + limit.tokensPerMs * leaseMs, limit.tokensPerMs)
}

/** Over all windows at once: from each first moment to each last one. */
function expectBound(momentsMs: readonly number[], most: number, tokensPerMs: number): void {
  let lowest = Number.POSITIVE_INFINITY
  for (const [count, ms] of momentsMs.entries()) {
    lowest = Math.min(lowest, count - ms * tokensPerMs)
    expect(count + 1 - ms * tokensPerMs - lowest).toBeLessThanOrEqual(most + SLACK)
  }
}

function loads(): fc.Arbitrary<Load> {
  return fc.record({
    instances: fc.integer({ min: 1, max: 4 }),
    leaseMs: fc.constantFrom(100, 1000),
    tokensPerMs: fc.constantFrom(0.01, 0.05, 0.2),
    burst: fc.integer({ min: 1, max: 100 }),
    wayMs: fc.constantFrom(0, 0.3, 20),
    steps: fc.array(steps(), { minLength: 5, maxLength: 120 }),
  })
}

function steps(): fc.Arbitrary<Step> {
  return fc.record({
    pauseMs: fc.oneof(
      { weight: 5, arbitrary: fc.integer({ min: 0, max: 10 }) },
      { weight: 1, arbitrary: fc.integer({ min: 11, max: 1500 }) },
    ),
    instance: fc.integer({ min: 0, max: 3 }),
    what: fc.oneof(
      { weight: 30, arbitrary: fc.constant('ask' as const) },
      { weight: 1, arbitrary: fc.constant('close' as const) },
      { weight: 1, arbitrary: fc.constant('die' as const) },
    ),
    times: fc.integer({ min: 1, max: 12 }),
  })
}

function mishaps(): fc.Arbitrary<Mishap> {
  return fc.record({
    pauseMs: fc.oneof({ weight: 8, arbitrary: fc.integer({ min: 0, max: 4 }) }, { weight: 1, arbitrary: fc.integer({ min: 5, max: 300 }) }),
    thread: fc.integer({ min: 0, max: 1 }),
    what: fc.oneof(
      { weight: 12, arbitrary: fc.constant('ask' as const) },
      { weight: 1, arbitrary: fc.constantFrom('forget' as const, 'forget' as const, 'leave' as const, 'return' as const) },
    ),
    times: fc.integer({ min: 1, max: 12 }),
  })
}

function moves(): fc.Arbitrary<Move> {
  return fc.record({
    pauseMs: fc.constantFrom(0, 0, 1, 45, 50),
    what: fc.constantFrom('lease', 'lease', 'lease', 'use', 'give_back'),
    tokens: fc.constantFrom(1, 10, 20),
  })
}
