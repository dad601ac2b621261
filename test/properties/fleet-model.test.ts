import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { calendarOf } from '../../src/limiter/calendar.ts'
import { WINDOW } from '../../src/limiter/limit.ts'
import type { RedisLink } from '../../src/store/redis/link/redis-link.ts'
import { exactBurst, exactRate } from '../support/random/numbers.ts'
import { ClockedFleetStore } from '../support/redis/clocked-link.ts'
import { usableLink } from '../support/redis/recorded-link.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { runs } from '../support/run/property-runs.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { bucketLimit, overdrawn, type TokenLimit, takeRows } from '../support/store/charging.ts'
import { MapStore } from '../support/store/map-store.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Shortly before clocks change, or a month or a year ends. */
const STARTS = [
  '2026-03-28T20:00Z',
  '2026-10-24T20:00Z',
  '2026-02-28T20:00Z',
  '2026-12-31T20:00Z',
  '2026-03-08T03:00Z',
  '2026-11-01T03:00Z',
]

const anyBucket = fc.tuple(exactRate, exactBurst).map(([rate, burst]): TokenLimit => bucketLimit(rate, burst))
const anyWindow = fc
  .tuple(
    fc.integer({ min: 1, max: 100 }),
    fc.constantFrom('1h', '6h', '1d', '1w', '1mo', '3mo', '1y'),
    fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York'),
  )
  .map(([tokens, period, zone]): TokenLimit => ({ kind: WINDOW, tokens, calendar: calendarOf(period, zone) }))
const anyLimit = fc
  .tuple(fc.oneof(anyBucket, anyWindow), fc.boolean())
  .map(([limit, isOverdrawn]) => (isOverdrawn ? overdrawn(limit) : limit))
const anyGapMs = fc.oneof(fc.nat(100), fc.nat(3 * HOUR_MS), fc.nat(40 * DAY_MS))
const anyShare = fc.constantFrom(0, 0.125, 0.25, 0.5, 1, 1.5, 3)
const anyStep = fc.record({ shares: fc.tuple(anyShare, anyShare), gapMs: anyGapMs, isToggled: fc.boolean() })

describeWithRedis('limits in Redis, over changes of clocks and ends of months', () => {
  const suite = thisSuite()
  let link: RedisLink
  let stores = 0

  beforeAll(async () => {
    link = (await usableLink((await runningRedis({}, suite)).url, 60_000, suite)).link
  })

  test('any takes from buckets and windows, overdrawn or not, give the same answers and levels as a Map', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(anyLimit, anyLimit),
        fc.constantFrom(...STARTS),
        fc.array(anyStep, { minLength: 1, maxLength: 25 }),
        async (limits, start, steps) => {
          const [redis, model] = [new ClockedFleetStore(link, `edge:${stores++}:`), new MapStore()]
          const current = [...limits]
          let nowMs = 0
          for (const { shares, gapMs, isToggled } of steps) {
            nowMs += gapMs
            // How a limit refuses may change at any time, and what was taken stays taken.
            if (isToggled) current[0] = { ...current[0]!, canOverdraw: current[0]!.canOverdraw !== true }
            const [answer, expected] = await Promise.all(
              [redis, model].map((store) => {
                const rows = current.map((limit, i) => {
                  const size = limit.kind === WINDOW ? limit.tokens : limit.burst
                  return { counter: store.open({ identity: [String(i)], limit, sinceMs: 0 }), cost: size * shares[i]! }
                })
                return takeRows(store, rows, nowMs, Date.parse(start) + nowMs)
              }),
            )
            expect(answer!.taken).toBe(expected!.taken)
            expect(answer!.levels).toEqual(expected!.levels)
            for (const [row, waitMs] of answer!.waitsMs.entries()) expect([row, waitMs > 0]).toEqual([row, expected!.waitsMs[row]! > 0])
          }
        },
      ),
      { numRuns: runs(4) },
    )
  })
})
