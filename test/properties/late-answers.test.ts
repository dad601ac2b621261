import fc from 'fast-check'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { BucketLimit } from '../../src/limiter/limit.ts'
import { worstWindow } from '../support/fleet/admissions.ts'
import { AT_ONCE, type CallTiming, ExactInstance } from '../support/fleet/exact-instance.ts'
import { SimulatedTime } from '../support/fleet/simulated-time.ts'
import { type RedisServer, runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { runs } from '../support/run/property-runs.ts'
import { bucketLimit } from '../support/store/charging.ts'

/** A second brings ten tokens back. */
const LIMIT = bucketLimit(0.01, 20)

interface Trouble {
  readonly limit: BucketLimit
  readonly timeoutMs: number
  readonly steps: readonly Step[]
  /** Of the calls, in turn. */
  readonly timings: readonly CallTiming[]
}

/** After a pause, the instance is asked a number of times at once; or Redis forgets; or the circuit opens for a while. */
interface Step {
  readonly pauseMs: number
  readonly what: 'ask' | 'forget' | 'open'
  readonly times: number
}

let time = new SimulatedTime()

// The store measures how long answers take by the clock of the process.
beforeEach(() => {
  vi.spyOn(performance, 'now').mockImplementation(() => time.nowMs())
})
afterEach(() => {
  vi.restoreAllMocks()
})

describeWithRedis('an instance by itself, whose Redis forgets', () => {
  test('admits what comes back in twice the slowest answer on top of the burst, once', async () => {
    const redis = await runningRedis()
    const instance = await lone(redis, LIMIT, 3000)
    instance.nextCall = () => ({ outMs: 30, backMs: 30, isLost: false })
    void instance.ask()
    await time.advance(10_000)
    instance.nextCall = () => AT_ONCE
    const admittedOf = async (times: number) => {
      const before = instance.admissions.length
      for (let i = 0; i < times; i++) void instance.ask()
      await time.advance(0)
      return instance.admissions.length - before
    }
    // All at one moment. Twice 60 ms are worth one token.
    expect(await admittedOf(30)).toBe(20)
    for (const more of [1, 0, 0]) {
      await redis.command('FLUSHALL')
      expect(await admittedOf(5)).toBe(more)
    }
    // The failure mode has none either, and Redis the next one when that one has come back.
    instance.openUntilMs = time.nowMs() + 1
    expect(await admittedOf(5)).toBe(0)
    await time.advance(100)
    await redis.command('FLUSHALL')
    expect(await admittedOf(5)).toBe(1)
  })

  test('admits no more than that over any window, whatever becomes of calls and circuits', async () => {
    const redis = await runningRedis()
    await fc.assert(
      fc.asyncProperty(troubles(), (trouble) => holdsTheBound(redis, trouble)),
      { numRuns: runs(2) },
    )
  })
})

describeWithRedis('a fleet in exact, whose answers are late', () => {
  test('does not get twice what came back while an instance held tokens that it had no use for', async () => {
    const redis = await runningRedis()
    const limit = bucketLimit(0.1, 10)
    const [late, second, third] = await fleetOf(3, redis, limit, 50)
    const askTen = async (instance: ExactInstance, backMs: number, thenMs: number) => {
      instance.nextCall = () => ({ ...AT_ONCE, backMs })
      for (let i = 0; i < 10; i++) void instance.ask()
      await time.advance(thenMs)
    }
    await askTen(late!, 300, 100)
    // Redis is full again, and the own count has not heard of the first ten: when it does, it refuses some of these.
    await askTen(late!, 200, 199)
    await askTen(second!, 0, 0)
    late!.nextCall = () => AT_ONCE
    await time.advance(1)
    await askTen(third!, 0, 0)
    const all = [late!, second!, third!].flatMap(({ admissions }) => admissions)
    expect(late!.admissions.length).toBeLessThan(20)
    expect(worstWindow(all, limit.tokensPerMs).burst).toBeLessThanOrEqual(limit.burst + 1e-6)
  })
})

describeWithRedis('a fleet in exact, whose Redis forgets', () => {
  test('admits the limit afterwards, and none of what was granted before and came back too late to be used', async () => {
    const redis = await runningRedis()
    const limit: BucketLimit = { ...LIMIT, burst: 60 }
    const [late, second, third] = await fleetOf(3, redis, limit, 50)
    const askAll = async (instance: ExactInstance, thenMs: number) => {
      for (let i = 0; i < limit.burst; i++) void instance.ask()
      await time.advance(thenMs)
    }
    late!.nextCall = () => ({ ...AT_ONCE, backMs: 40 })
    await askAll(late!, 1)
    // Its circuit opens before the answers are here: its own count hands out all it has, and will have no room for them.
    late!.openUntilMs = time.nowMs() + 5
    await askAll(late!, 1)
    expect(late!.admissions).toHaveLength(limit.burst)
    await redis.command('FLUSHALL')
    await askAll(second!, 0)
    await time.advance(60)
    await askAll(third!, 0)
    const after = [...second!.admissions, ...third!.admissions]
    expect(late!.admissions).toHaveLength(limit.burst)
    expect(worstWindow(after, limit.tokensPerMs).burst).toBeLessThanOrEqual(limit.burst + 1e-6)
  })
})

async function fleetOf(size: number, redis: RedisServer, limit: BucketLimit, timeoutMs: number): Promise<ExactInstance[]> {
  time = new SimulatedTime()
  return Promise.all(Array.from({ length: size }, () => ExactInstance.start({ redis, time, limit, timeoutMs })))
}

async function lone(redis: RedisServer, limit: BucketLimit, timeoutMs: number): Promise<ExactInstance> {
  time = new SimulatedTime()
  return ExactInstance.start({ redis, time, limit, timeoutMs })
}

async function holdsTheBound(redis: RedisServer, { limit, timeoutMs, steps, timings }: Trouble): Promise<void> {
  const instance = await lone(redis, limit, timeoutMs)
  let calls = 0
  instance.nextCall = () => timings[calls++ % timings.length]!
  for (const { pauseMs, what, times } of steps) {
    await time.advance(pauseMs)
    if (what === 'ask') for (let i = 0; i < times; i++) void instance.ask()
    else if (what === 'forget') await redis.command('FLUSHALL')
    else instance.openUntilMs = time.nowMs() + 10 * times
  }
  await time.advance(60_000)
  const slackMs = Math.min(2 * instance.slowestAnswerMs, timeoutMs)
  const bound = limit.burst + limit.tokensPerMs * slackMs
  expect(worstWindow(instance.admissions, limit.tokensPerMs).burst).toBeLessThanOrEqual(bound + 1e-6)
}

function troubles(): fc.Arbitrary<Trouble> {
  return fc.record({
    limit: fc
      .tuple(fc.constantFrom(0.01, 0.1, 0.5), fc.integer({ min: 1, max: 40 }))
      .map(([tokensPerMs, burst]) => bucketLimit(tokensPerMs, burst)),
    timeoutMs: fc.constantFrom(50, 3000),
    steps: fc.array(steps(), { minLength: 5, maxLength: 60 }),
    timings: fc.array(timings(), { minLength: 1, maxLength: 20 }),
  })
}

function steps(): fc.Arbitrary<Step> {
  return fc.record({
    pauseMs: fc.oneof(
      { weight: 5, arbitrary: fc.integer({ min: 0, max: 10 }) },
      { weight: 1, arbitrary: fc.integer({ min: 11, max: 500 }) },
    ),
    what: fc.constantFrom('ask', 'ask', 'ask', 'ask', 'forget', 'open'),
    times: fc.integer({ min: 1, max: 20 }),
  })
}

function timings(): fc.Arbitrary<CallTiming> {
  return fc.record({
    outMs: fc.constantFrom(0, 1, 20),
    backMs: fc.constantFrom(0, 0, 1, 20, 400),
    isLost: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  })
}
