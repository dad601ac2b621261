import { beforeAll, beforeEach, expect, test } from 'vitest'
import { ClockedInstance } from '../../../test/support/redis/clocked-instance.ts'
import { ClockedLink } from '../../../test/support/redis/clocked-link.ts'
import { usableLink } from '../../../test/support/redis/recorded-link.ts'
import { type RedisServer, runningRedis } from '../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../test/support/redis/redis-suite.ts'
import { countersIn } from '../../../test/support/redis/stored-counters.ts'
import { thisSuite } from '../../../test/support/service/suite-owner.ts'
import { bucketLimit, dayLimit, resetRows, takeRows } from '../../../test/support/store/charging.ts'
import { systemClock } from '../../time/clock.ts'
import { newEmbeddedStore } from '../table/embedded-store.ts'
import { FleetStore } from './fleet-store.ts'
import { LinkError } from './link/call.ts'
import type { RedisLink } from './link/redis-link.ts'
import { counterScripts } from './scripts.ts'
import { SharedCounters } from './shared-counters.ts'

const SIZE = 100
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const LIMITS = { bucket: bucketLimit(2 ** -30, SIZE), day: dayLimit(SIZE) }
const KINDS = ['bucket', 'day'] as const

describeWithRedis('a reset in Redis', () => {
  const suite = thisSuite()
  let redis: RedisServer
  let realLink: RedisLink
  let link: ClockedLink
  let prefix: string
  let stores = 0

  beforeAll(async () => {
    redis = await runningRedis({}, suite)
    realLink = (await usableLink(redis.url, 5000, suite)).link
    link = new ClockedLink(realLink)
  })
  beforeEach(async () => {
    await redis.command('FLUSHALL')
    prefix = `edge:${stores++}:`
    link.nowMs = 0
    link.wallMs = Date.UTC(2026, 0, 15, 12)
  })

  const tick = (ms = 1) => {
    link.nowMs += ms
    link.wallMs += ms
  }
  const newInstance = (options: ConstructorParameters<typeof ClockedInstance>[2] = {}) => new ClockedInstance(link, prefix, options)
  const open =
    (kind: (typeof KINDS)[number]) =>
    (one: ClockedInstance, name = 'rule') =>
      one.open(LIMITS[kind], name)

  test.for(KINDS)('of a %s is met by an instance that was down and comes back with what it had counted', async (kind) => {
    const [one, two] = [newInstance(), newInstance()]
    const counter = open(kind)(two)
    await two.take(80, counter)
    tick()
    await one.reset(open(kind)(one))
    tick(HOUR_MS)
    const back = newInstance({ local: two.local })
    expect(back.ownLeft(counter)).toBe(SIZE - 80)
    expect((await back.take(90, counter)).outcome).toBe(true)
    expect([back.ownLeft(counter), await one.left(counter)]).toEqual([SIZE - 90, SIZE - 90])
  })

  test.for(KINDS)('of a %s leaves the own counters whole, too: they decide while Redis is away', async (kind) => {
    const one = newInstance({ failureMode: 'local' })
    const counter = open(kind)(one)
    await one.take(80, counter)
    tick()
    await one.reset(counter)
    tick()
    one.onWayOut = async () => new LinkError('not_sent', 'away', 'Redis is away')
    expect((await one.take(90, counter)).outcome).toBe(true)
    expect((await one.take(11, counter)).outcome).toBe(false)
  })

  test.for(KINDS)('of a %s is not charged for a take that was done before it and is told after it', async (kind) => {
    const worker = newInstance()
    const other = newInstance({ local: worker.local })
    const counter = open(kind)(worker)
    const answer = newGate()
    worker.onWayBack = () => answer.opened
    const late = worker.take(70, counter)
    await until(() => worker.calls.length === 1)
    // Behind the take, on its connection.
    await other.left(counter)
    tick()
    await other.reset(counter)
    tick()
    answer.open()
    const { outcome, takenWallMs } = await late
    expect(outcome).toBe(true)
    expect([await other.left(counter), worker.ownLeft(counter)]).toEqual([SIZE, SIZE])
    // Nor does it get back what was not used of it.
    await other.take(90, counter)
    await worker.settle(counter, 70, takenWallMs)
    expect([await other.left(counter), worker.ownLeft(counter)]).toEqual([SIZE - 90, SIZE - 90])
  })

  test.for(KINDS)('of a %s is charged for a take that was sent before it and done after it', async (kind) => {
    const [worker, other] = [newInstance(), newInstance()]
    const counter = open(kind)(worker)
    await worker.take(80, counter)
    const departure = newGate()
    worker.onWayOut = () => departure.opened
    const late = worker.take(20, counter)
    tick()
    await other.reset(counter)
    tick()
    departure.open()
    expect(await late).toMatchObject({ outcome: true, levels: [SIZE - 20] })
    expect([await other.left(counter), worker.ownLeft(counter)]).toEqual([SIZE - 20, SIZE - 20])
  })

  test.for(KINDS)('of a %s is met once by the workers of an instance, to whomever it is announced first', async (kind) => {
    const [first, elsewhere] = [newInstance(), newInstance()]
    const second = newInstance({ local: first.local })
    const counter = open(kind)(first)
    await first.take(80, counter)
    tick()
    await elsewhere.reset(counter)
    tick()
    const answer = newGate()
    first.onWayBack = () => answer.opened
    const late = first.take(10, counter)
    await second.take(30, counter)
    answer.open()
    await late
    expect([await elsewhere.left(counter), first.ownLeft(counter)]).toEqual([SIZE - 40, SIZE - 40])
  })

  test.for(KINDS)('of a %s gets nothing of what was taken before and had no room here', async (kind) => {
    const [one, other] = [newInstance({ failureMode: 'local' }), newInstance()]
    const counter = open(kind)(one)
    const answer = newGate()
    one.onWayBack = () => answer.opened
    const late = one.take(70, counter)
    await until(() => one.calls.length === 1)
    await other.left(counter)
    // Redis goes away: the own count hands out what it has, and has no room for the answer.
    one.onWayOut = async () => new LinkError('not_sent', 'away', 'Redis is away')
    await one.take(90, counter)
    tick()
    await other.reset(counter)
    await other.take(SIZE, counter)
    one.onWayOut = () => undefined
    answer.open()
    expect((await late).outcome).toBe(false)
    await until(() => one.calls.at(-1) === 'give_back')
    expect(await other.left(counter)).toBe(0)
  })

  test('while Redis is away is refused, and nothing has changed', async () => {
    const one = newInstance()
    const counter = open('bucket')(one)
    await one.take(80, counter)
    tick()
    one.onWayOut = async () => new LinkError('not_sent', 'away', 'Redis is away')
    await expect(one.reset(counter)).rejects.toMatchObject({ name: 'LinkError', outcome: 'not_sent' })
    one.onWayOut = () => undefined
    expect([await one.left(counter), one.ownLeft(counter)]).toEqual([SIZE - 80, SIZE - 80])
  })

  test('of which nobody knows whether it was done is refused, can be repeated, and is met if it was done', async () => {
    const [one, two] = [newInstance(), newInstance()]
    const counter = open('bucket')(one)
    await one.take(80, counter)
    tick()
    one.onWayBack = async () => new LinkError('unknown', 'timeout', 'no answer')
    await expect(one.reset(counter)).rejects.toMatchObject({ name: 'LinkError', outcome: 'unknown' })
    expect(one.ownLeft(counter)).toBe(SIZE - 80)
    one.onWayBack = () => undefined
    tick()
    expect((await one.take(30, counter)).levels).toEqual([SIZE - 30])
    expect(one.ownLeft(counter)).toBe(SIZE - 30)
    tick()
    await one.reset(counter)
    expect([await two.left(counter), one.ownLeft(counter)]).toEqual([SIZE, SIZE])
  })

  test('of counters on two nodes, one of which is away, is refused, and where it was done it is known', async () => {
    const groupOf = (key: string) => Number.parseInt(key.slice(-6), 16)
    const one = newInstance({ groupOf })
    const [a, b] = [open('bucket')(one, 'a'), open('bucket')(one, 'b')]
    await one.take(80, a, b)
    tick()
    const [first] = (await countersIn(redis)) as [string]
    one.onWayOut = async (_, keys) => (keys.includes(first) ? undefined : new LinkError('not_sent', 'away', 'that node is away'))
    await expect(one.reset(a, b)).rejects.toMatchObject({ outcome: 'not_sent' })
    one.onWayOut = () => undefined
    const left = [await one.left(a), await one.left(b)]
    expect([one.ownLeft(a), one.ownLeft(b)]).toEqual(left)
    expect(left.sort()).toEqual([SIZE, SIZE - 80])
  })

  test('is later than the one before it, where the clock of Redis was set back between them', async () => {
    const [one, two] = [newInstance(), newInstance()]
    const counter = open('bucket')(one)
    await one.reset(counter)
    tick()
    await two.take(80, counter)
    tick(-HOUR_MS)
    await one.reset(counter)
    tick()
    expect([await two.left(counter), two.ownLeft(counter)]).toEqual([SIZE, SIZE])
  })

  test('of a bucket is announced for a day; then what an instance has counted before it holds again', async () => {
    const [one, two, three] = [newInstance(), newInstance(), newInstance()]
    const counter = open('bucket')(one)
    await two.take(40, counter)
    await three.take(40, counter)
    tick()
    await one.reset(counter)
    tick(DAY_MS - 1)
    expect(await two.left(counter)).toBe(SIZE)
    tick()
    expect(await three.left(counter)).toBe(SIZE - 40)
  })

  test('fits into the 40 bytes of a bucket, which is kept for a day then, full or not', async () => {
    const store = realStore()
    const counter = store.open({ identity: ['rule'], limit: bucketLimit(1, SIZE), sinceMs: 0 })
    const reset = () => resetRows(store, [{ counter }], systemClock.nowMs(), systemClock.wallMs())
    const take = (cost: number) => takeRows(store, [{ counter, cost }], systemClock.nowMs(), systemClock.wallMs())
    await take(10)
    await reset()
    for (const cost of [SIZE, 0]) {
      const [key] = (await countersIn(redis)) as [string]
      expect(await redis.command('STRLEN', key)).toBe(40)
      const restMs = Number(await redis.command('PTTL', key))
      expect(restMs).toBeGreaterThan(DAY_MS - 60_000)
      expect(restMs).toBeLessThanOrEqual(DAY_MS)
      await take(cost)
    }
  })

  test('of a window is kept as long as the window', async () => {
    const store = realStore()
    const counter = store.open({ identity: ['rule'], limit: dayLimit(SIZE), sinceMs: 0 })
    await resetRows(store, [{ counter }], systemClock.nowMs(), systemClock.wallMs())
    const [key] = (await countersIn(redis)) as [string]
    const endsMs = Number(await redis.command('PEXPIRETIME', key))
    expect(endsMs % DAY_MS).toBeLessThan(2)
    expect(endsMs).toBeGreaterThan(systemClock.wallMs())
  })

  /** By the clock of the server. */
  function realStore(): FleetStore {
    const shared = new SharedCounters(realLink, counterScripts(), { prefix, maxSlackMs: 0 }, { onUnknownOutcome() {} })
    const local = newEmbeddedStore(64 * 1024)
    return new FleetStore({ shared, local, failureMode: 'closed', clock: systemClock, listener: { onDecided() {} } })
  }
})

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate)
}

/** What waits for it goes on when it is opened. */
function newGate(): { opened: Promise<undefined>; open(): void } {
  let open = () => {}
  const opened = new Promise<undefined>((resolve) => {
    open = () => resolve(undefined)
  })
  return { opened, open: () => open() }
}
