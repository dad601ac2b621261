import { beforeAll, beforeEach, expect, test } from 'vitest'
import { ClockedInstance } from '../../../test/support/redis/clocked-instance.ts'
import { ClockedLink } from '../../../test/support/redis/clocked-link.ts'
import { usableLink } from '../../../test/support/redis/recorded-link.ts'
import { type RedisServer, runningRedis } from '../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../test/support/redis/redis-suite.ts'
import { thisSuite } from '../../../test/support/service/suite-owner.ts'
import { dayLimit } from '../../../test/support/store/charging.ts'
import { calendarOf, type Period } from '../../limiter/calendar.ts'
import { type Limit, WINDOW } from '../../limiter/limit.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const SIZE = 100
const START_MS = Date.UTC(2026, 2, 7, 12, 20)

function windowLimit(period: Period, zone: string): Limit {
  return { kind: WINDOW, tokens: SIZE, calendar: calendarOf(period, zone) }
}

const HOURS_OF_KATHMANDU = windowLimit('1h', 'Asia/Kathmandu')
const MONTHS_OF_NEW_YORK = windowLimit('1mo', 'America/New_York')

describeWithRedis('a window in Redis', () => {
  const suite = thisSuite()
  let redis: RedisServer
  let link: ClockedLink
  let one: ClockedInstance
  let stores = 0

  beforeAll(async () => {
    redis = await runningRedis({}, suite)
    link = new ClockedLink((await usableLink(redis.url, 5000, suite)).link)
  })
  beforeEach(async () => {
    await redis.command('FLUSHALL')
    link.nowMs = 0
    link.wallMs = START_MS
    one = new ClockedInstance(link, `edge:${stores++}:`)
  })

  test.for<[string, Limit, endMs: number, nextEndMs: number]>([
    ['an hour of Kathmandu', HOURS_OF_KATHMANDU, Date.UTC(2026, 2, 7, 13, 15), Date.UTC(2026, 2, 7, 14, 15)],
    // The clocks of New York go forward within it.
    ['a month of New York', MONTHS_OF_NEW_YORK, Date.UTC(2026, 3, 1, 4), Date.UTC(2026, 4, 1, 4)],
    ['a day of New York', windowLimit('1d', 'America/New_York'), Date.UTC(2026, 2, 8, 5), Date.UTC(2026, 2, 9, 4)],
    ['a minute', windowLimit('1m', 'UTC'), START_MS + 60_000, START_MS + 120_000],
  ])('that is %s hands out its tokens once, and the next one again', async ([, limit, endMs, nextEndMs]) => {
    const counter = one.open(limit)
    expect(await one.take(60, counter)).toMatchObject({ outcome: true, levels: [40], takenWallMs: START_MS })
    expect(await one.take(41, counter)).toMatchObject({ outcome: false, waitsMs: [endMs - START_MS] })
    link.wallMs = endMs - 1
    expect(await one.take(40, counter)).toMatchObject({ outcome: true, levels: [0] })
    expect(await one.take(1, counter)).toMatchObject({ outcome: false, waitsMs: [1] })
    link.wallMs = endMs
    expect(await one.take(70, counter)).toMatchObject({ outcome: true, levels: [30] })
    expect(await one.take(31, counter)).toMatchObject({ outcome: false, waitsMs: [nextEndMs - endMs] })
    await one.settle(counter, 20, START_MS)
    expect(await one.left(counter)).toBe(30)
    await one.settle(counter, 20, endMs)
    expect(await one.left(counter)).toBe(50)
  })

  test('is the one that Redis is in, where the instance is in the one before it or after it, and it costs no call more', async () => {
    const counter = one.open(HOURS_OF_KATHMANDU)
    await one.take(90, counter)
    for (const aheadMs of [-HOUR_MS, HOUR_MS]) {
      const other = new ClockedInstance(link, `edge:${stores - 1}:`)
      other.aheadMs = aheadMs
      expect(await other.take(11, counter)).toMatchObject({ outcome: false, waitsMs: [55 * 60_000] })
      expect(await other.take(5, counter)).toMatchObject({ outcome: true, takenWallMs: START_MS })
      expect(other.calls).toHaveLength(2)
    }
    expect(await one.left(counter)).toBe(0)
  })

  test('that the instance does not name is asked for once more, and from then on it is named', async () => {
    one.aheadMs = 5 * HOUR_MS
    const counter = one.open(HOURS_OF_KATHMANDU)
    expect(await one.take(60, counter)).toMatchObject({ outcome: true, levels: [40], takenWallMs: START_MS })
    expect(one.calls).toEqual(['take', 'take'])
    expect(await one.take(41, counter)).toMatchObject({ outcome: false, levels: [40], waitsMs: [55 * 60_000] })
    expect(one.calls).toEqual(['take', 'take', 'take'])
    one.aheadMs = 0
    expect(await one.take(40, counter)).toMatchObject({ outcome: true, levels: [0] })
    expect(one.calls).toHaveLength(5)
  })

  test('that the instance does not name is reset, too', async () => {
    const counter = one.open(HOURS_OF_KATHMANDU)
    await one.take(60, counter)
    one.aheadMs = -5 * HOUR_MS
    await one.reset(counter)
    expect(one.calls).toEqual(['take', 'reset', 'reset'])
    expect([await one.left(counter), one.ownLeft(counter)]).toEqual([SIZE, SIZE])
  })

  test('takes nothing where the clock of Redis is in another one each time, and the failure mode decides', async () => {
    const counter = one.open(HOURS_OF_KATHMANDU)
    one.onWayOut = async () => {
      link.wallMs += 5 * HOUR_MS
      return undefined
    }
    expect((await one.take(60, counter)).outcome).toBe('unavailable')
    expect(one.calls).toEqual(['take', 'take'])
    await expect(one.reset(counter)).rejects.toMatchObject({ outcome: 'refused', code: 'clock' })
    one.onWayOut = () => undefined
    expect(await redis.command('DBSIZE')).toBe(0)
  })

  test('is kept in mind by who has taken from it, whatever its own clock says: Redis may forget', async () => {
    one.aheadMs = 5 * HOUR_MS
    const counter = one.open(HOURS_OF_KATHMANDU)
    await one.take(60, counter)
    await redis.command('FLUSHALL')
    expect(await one.take(41, counter)).toMatchObject({ outcome: false, levels: [40] })
    expect((await one.take(40, counter)).outcome).toBe(true)
  })

  test('on one node gets back what it gave, where the clock of another is in none of the windows', async () => {
    const counters = ['a', 'b', 'c', 'd'].map((name) => one.open(windowLimit('1m', 'UTC'), name))
    const groupOf = (key: string) => Number.parseInt(key.slice(-6), 16)
    // Some nodes are ten minutes ahead, and no time is in the windows of all.
    const nodeAheadMs = (key: string) => (keys.indexOf(key) % 2) * 10 * 60_000
    const keys: string[] = []
    const many = new ClockedInstance(link, 'edge:nodes:', { groupOf, nodeAheadMs })
    many.onWayOut = (_, [key]) => {
      if (!keys.includes(key!)) keys.push(key!)
      return undefined
    }
    expect((await many.take(30, ...counters)).outcome).toBe('unavailable')
    const asked = many.calls.filter((action) => action === 'take')
    expect(asked).toHaveLength(8)
    expect(many.calls.filter((action) => action === 'give_back')).toHaveLength(4)
    // Behind them, on their connection.
    await one.left(counters[0]!)
    for (const key of (await redis.command('KEYS', 'edge:nodes:*')) as string[]) {
      const used = pairs((await redis.command('HGETALL', key)) as string[]).filter(([field]) => !field.startsWith('-'))
      expect(used.map(([, tokens]) => tokens)).toEqual(['0'])
    }
  })

  test('of a UTC day is in Redis what it has always been', async () => {
    const counter = one.open(dayLimit(SIZE))
    await one.take(60, counter)
    link.wallMs += DAY_MS
    await one.take(30, counter)
    link.wallMs += DAY_MS
    await one.take(20, counter)
    const [key] = (await redis.command('KEYS', '*')) as string[]
    const fields = (await redis.command('HGETALL', key!)) as string[]
    const day = Math.floor(START_MS / DAY_MS)
    const expected = { [day + 1]: '30', [-day - 1]: `${START_MS + DAY_MS}`, [day + 2]: '20', [-day - 2]: `${START_MS + 2 * DAY_MS}` }
    expect(Object.fromEntries(pairs(fields))).toEqual(expected)
  })

  test('leaves nothing behind, however many there were', async () => {
    const counter = one.open(HOURS_OF_KATHMANDU)
    for (let hour = 0; hour < 60; hour++) {
      await one.take(1, counter)
      link.wallMs += HOUR_MS
    }
    const [key] = (await redis.command('KEYS', '*')) as string[]
    expect(await redis.command('HLEN', key!)).toBe(4)
  })
})

function pairs(fields: readonly string[]): [string, string][] {
  return fields.flatMap((field, i) => (i % 2 === 0 ? [[field, fields[i + 1]!] as [string, string]] : []))
}
