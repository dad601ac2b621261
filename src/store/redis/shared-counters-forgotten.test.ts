import { beforeEach, expect, test } from 'vitest'
import { usableLink } from '../../../test/support/redis/recorded-link.ts'
import { type RedisServer, redisOfSuite } from '../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../test/support/redis/redis-suite.ts'
import { bucketLimit, checkRows, dayLimit, inFlightLimit, takeRows } from '../../../test/support/store/charging.ts'
import { calendarOf } from '../../limiter/calendar.ts'
import type { BucketLimit, Limit } from '../../limiter/limit.ts'
import { systemClock } from '../../time/clock.ts'
import { ChargeResults, Charges } from '../charges.ts'
import { newEmbeddedStore } from '../table/embedded-store.ts'
import { rowsOf } from './counter-rows.ts'
import type { FleetCounter } from './fleet-counter.ts'
import { FleetStore } from './fleet-store.ts'
import type { Script, ScriptArgument } from './link/call.ts'
import type { RedisLink } from './link/redis-link.ts'
import { grantOf, type QueryCall } from './script-calls.ts'
import { counterScripts } from './scripts.ts'
import { SharedCounters } from './shared-counters.ts'

const SIZE = 60
/** So long a window that hardly ever a test sees one end. */
const LIMITS = { bucket: bucketLimit(1e-9, SIZE), window: { ...dayLimit(SIZE), calendar: calendarOf('1y', 'UTC') } }
const KINDS = ['bucket', 'window'] as const

let redis: RedisServer

/** One for all tests of a `describe`, empty at the start of each. */
function useRedis(): void {
  const shared = redisOfSuite()
  beforeEach(() => {
    redis = shared()
  })
}

describeWithRedis('what Redis granted before it forgot', () => {
  useRedis()

  test.for(KINDS)('is not given back to a %s that was begun afterwards', async (kind) => {
    const [late, other] = [await instance(LIMITS[kind]), await instance(LIMITS[kind])]
    const calls = await late.ask(40)
    await redis.command('FLUSHALL')
    await other.take(SIZE)
    await late.shared.giveBack(calls)
    expect(await leftOf(LIMITS[kind])).toBe(0)
  })

  test.for(KINDS)('is given back to a %s that has not forgotten it', async (kind) => {
    const [late, other] = [await instance(LIMITS[kind]), await instance(LIMITS[kind])]
    await other.take(10)
    const calls = await late.ask(40)
    await late.shared.giveBack(calls)
    expect(await leftOf(LIMITS[kind])).toBe(SIZE - 10)
  })

  test.for(KINDS)('is not given back to a %s on one node because another node has refused', async (kind) => {
    const other = await instance(LIMITS[kind])
    const { link } = await usableLink(redis.url)
    let refused = 0
    const late = await instance(LIMITS[kind], false, {
      groupOf: (key) => Number.parseInt(key.at(-1)!, 16),
      isUsable: () => true,
      async run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]) {
        const reply = await link.run(script, keys, args)
        if (args[0] !== 'take' || args[1]![2] === 40) return reply
        // The other node: meanwhile this one forgets, and somebody begins the counter anew.
        await redis.command('FLUSHALL')
        await other.take(SIZE)
        refused++
        return [0, Date.now(), 0, 0, 0, 0, 0]
      },
    })
    const charges = new Charges()
    charges.add(late.counter, 40)
    charges.addValue('of another slot')
    charges.add(late.counter, 1)
    expect(await late.shared.ask(late.callsFor(charges), charges, new ChargeResults())).toBe(false)
    expect(refused).toBe(1)
    // Behind the give-back, on its connection.
    await link.run(counterScripts().buckets, ['edge:any'], ['check', [0, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1]])
    expect(await leftOf(LIMITS[kind])).toBe(0)
  })

  test('in a lease is not given back to a bucket that was begun afterwards, and to an older one it is', async () => {
    const [late, other] = [await instance(LIMITS.bucket, true), await instance(LIMITS.bucket, true)]
    const { tokens, momentMs: wallMs } = grantOf(await late.ask(1, 20), 0)
    expect(tokens).toBe(20)
    await redis.command('FLUSHALL')
    await other.take(SIZE)
    const giveBack = (leasedWallMs: number) => late.shared.giveBackLease(late.key, LIMITS.bucket as BucketLimit, tokens, leasedWallMs)
    expect(await giveBack(wallMs)).toBe(true)
    expect(await leftOf(LIMITS.bucket)).toBe(0)
    expect(await giveBack(wallMs + 60_000)).toBe(true)
    expect(await leftOf(LIMITS.bucket)).toBe(20)
  })

  test.for(KINDS)('and was reserved goes back where who reserved it has begun the %s anew', async (kind) => {
    const one = await instance(LIMITS[kind])
    await one.take(40)
    await redis.command('FLUSHALL')
    await one.take(10)
    const charges = new Charges()
    charges.add(one.counter, 30)
    await one.store.settleAll(
      charges,
      { wallMs: systemClock.wallMs(), momentMs: systemClock.wallMs(), from: 'shared' },
      systemClock.nowMs(),
      systemClock.wallMs(),
    )
    expect(await leftOf(LIMITS[kind])).toBe(SIZE - 40 - 10 + 30)
  })

  test('is given back to a record that an earlier version has written, which does not say when it was begun', async () => {
    const [late, other] = [await instance(LIMITS.bucket), await instance(LIMITS.bucket)]
    const calls = await late.ask(40)
    const cut = "redis.call('SET', KEYS[1], string.sub(redis.call('GET', KEYS[1]), 1, 32), 'KEEPTTL')"
    await redis.command('EVAL', cut, 1, late.key)
    expect(await redis.command('STRLEN', late.key)).toBe(32)
    await late.shared.giveBack(calls)
    expect(await leftOf(LIMITS.bucket)).toBe(SIZE)
    await other.take(1)
    expect(await redis.command('STRLEN', late.key)).toBe(40)
  })
})

describeWithRedis('what Redis grants again because it forgot, and the own count does not cover', () => {
  useRedis()

  test.for([...KINDS, 'in_flight'] as const)('is rejected with the wait of the own count: %s', async (kind) => {
    const { link } = await usableLink(redis.url)
    let earlier = Promise.resolve()
    const late = await instance(kind === 'in_flight' ? inFlightLimit(SIZE, 60_000) : LIMITS[kind], false, {
      groupOf: () => 0,
      isUsable: () => true,
      async run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]) {
        const run = earlier.then(async () => {
          if (args[0] === 'take') await redis.command('FLUSHALL')
          return link.run(script, keys, args)
        })
        earlier = run.then(() => {})
        return run
      },
    })
    const take = () => takeRows(late.store, [{ counter: late.counter, cost: 40 }], systemClock.nowMs(), systemClock.wallMs())
    const [first, second] = await Promise.all([take(), take()])
    expect(first.taken).toBe(true)
    expect(second).toMatchObject({ taken: false, levels: [expect.closeTo(SIZE - 40)], waitsMs: [expect.toSatisfy((ms: number) => ms > 0)] })
    await earlier // what goes back is sent after the reject
  })
})

describeWithRedis('a lease of more than 14 digits', () => {
  useRedis()

  test('is as large as what Redis has taken for it', async () => {
    const burst = 2 ** 53
    const limit = bucketLimit(1e-9, burst)
    const one = await instance(limit, true)
    const asked = 1_234_567_890_123_457
    expect(grantOf(await one.ask(1, asked), 0).tokens).toBe(asked)
    expect(await leftOf(limit)).toBe(burst - 1 - asked)
  })
})

interface Instance {
  readonly shared: SharedCounters
  readonly store: FleetStore
  readonly counter: FleetCounter
  readonly key: string
  callsFor(charges: Charges, asks?: readonly number[]): QueryCall[]
  /** Takes from Redis alone, as if the answer were still on its way. */
  ask(cost: number, lease?: number): Promise<QueryCall[]>
  take(cost: number): Promise<void>
}

/** One that has taken nothing yet. */
async function instance(limit: Limit, isLeasable = false, link?: Pick<RedisLink, 'groupOf' | 'isUsable' | 'run'>): Promise<Instance> {
  const shared = new SharedCounters(
    link ?? (await usableLink(redis.url)).link,
    counterScripts(),
    { prefix: 'edge:', maxSlackMs: 0 },
    { onUnknownOutcome() {} },
  )
  const local = newEmbeddedStore(64 * 1024)
  const store = new FleetStore({ shared, local, failureMode: 'closed', clock: systemClock, listener: { onDecided() {} } })
  const counter = store.open({ identity: ['rule'], limit, sinceMs: 0, isLeasable })
  const callsFor = (charges: Charges, asks?: readonly number[]) => {
    const [nowMs, wallMs] = [systemClock.nowMs(), systemClock.wallMs()]
    const own = new ChargeResults()
    const resetsMs = new Float64Array(charges.length)
    local.checkWithResets(charges, own, resetsMs, nowMs, wallMs)
    const counts = { levels: own.levels, resetsMs }
    return shared.callsFor('take', { charges, own: counts, rows: rowsOf(charges), leases: asks, nowMs, wallMs })!
  }
  return {
    shared,
    store,
    counter,
    key: shared.keyOf(chargesOf(counter), 0),
    callsFor,
    async ask(cost, lease = 0) {
      const charges = chargesOf(counter, cost)
      const calls = callsFor(charges, [lease])
      expect(await shared.ask(calls, charges, new ChargeResults())).toBe(true)
      return calls
    },
    async take(cost) {
      expect((await takeRows(store, [{ counter, cost }], systemClock.nowMs(), systemClock.wallMs())).taken).toBe(true)
    },
  }
}

function chargesOf(counter: FleetCounter, cost = 0): Charges {
  const charges = new Charges()
  charges.add(counter, cost)
  return charges
}

/** What Redis has left for an instance that has taken nothing. */
async function leftOf(limit: Limit): Promise<number> {
  const { store, counter } = await instance(limit)
  const { levels } = await checkRows(store, [{ counter, cost: 1 }], systemClock.nowMs(), systemClock.wallMs())
  return Math.round(levels[0]!)
}
