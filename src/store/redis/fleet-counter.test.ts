import fc from 'fast-check'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ClockedInstance } from '../../../test/support/redis/clocked-instance.ts'
import { ClockedLink } from '../../../test/support/redis/clocked-link.ts'
import { usableLink } from '../../../test/support/redis/recorded-link.ts'
import { type RedisServer, runningRedis } from '../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../test/support/redis/redis-suite.ts'
import { runs } from '../../../test/support/run/property-runs.ts'
import { thisSuite } from '../../../test/support/service/suite-owner.ts'
import { bucketLimit, dayLimit, overdrawn } from '../../../test/support/store/charging.ts'
import { canOverdraw } from '../../limiter/limit.ts'
import type { FleetCounter } from './fleet-counter.ts'

const SIZE = 100
const PER_MS = 0.001

describeWithRedis('hits that are given back at another instance than the one that took them', () => {
  const suite = thisSuite()
  let redis: RedisServer
  let link: ClockedLink
  let prefixes = 0
  let taker: ClockedInstance
  let other: ClockedInstance

  beforeAll(async () => {
    redis = await runningRedis({}, suite)
    link = new ClockedLink((await usableLink(redis.url, 5000, suite)).link)
  })
  beforeEach(() => {
    prefixes++
    link.nowMs = 0
    link.wallMs = Date.UTC(2026, 2, 7, 12)
    taker = new ClockedInstance(link, `edge:${prefixes}:`, { failureMode: 'local' })
    other = new ClockedInstance(link, `edge:${prefixes}:`)
  })

  function pass(ms: number): void {
    link.nowMs += ms
    link.wallMs += ms
  }

  /** Gives back at the other instance, as a call of the rate limit service does. */
  async function refund(counter: FleetCounter, hits: number): Promise<void> {
    await other.refund(other.openLeasable(counter.limit), hits)
  }

  const LIMITS = [
    ['a bucket', bucketLimit(PER_MS, SIZE)],
    ['a window', dayLimit(SIZE)],
    ['a bucket that can be overdrawn', overdrawn(bucketLimit(PER_MS, SIZE))],
    ['a window that can be overdrawn', overdrawn(dayLimit(SIZE))],
  ] as const

  describe.each(LIMITS)('of %s', (_, limit) => {
    test('can be taken again, by both', async () => {
      const counter = taker.openLeasable(limit)
      await taker.take(SIZE, counter)
      await refund(counter, 60)
      expect(await taker.take(10, counter)).toMatchObject({ outcome: true, levels: [50] })
      expect(await other.take(10, other.openLeasable(limit))).toMatchObject({ outcome: true, levels: [40] })
      expect(await taker.take(40, counter)).toMatchObject({ outcome: true, levels: [0] })
      expect(await taker.take(1, counter)).toMatchObject({ outcome: false })
    })

    test('can be taken again, however often', async () => {
      const counter = taker.openLeasable(limit)
      for (let i = 0; i < 20; i++) {
        expect(await taker.take(80, counter)).toMatchObject({ outcome: true, levels: [SIZE - 80] })
        await refund(counter, 80)
      }
      expect(await other.left(counter)).toBe(SIZE)
    })

    test('are no reason to grant more than the limit', async () => {
      const counter = taker.openLeasable(limit)
      await taker.take(90, counter)
      await refund(counter, 1000)
      expect(await taker.take(SIZE, counter)).toMatchObject({ outcome: true, levels: [0] })
      expect(await taker.take(1, counter)).toMatchObject({ outcome: false })
    })

    test('are known to the own count of the taker once it has asked', async () => {
      const counter = taker.openLeasable(limit)
      await taker.take(90, counter)
      await refund(counter, 90)
      await taker.take(10, counter)
      expect(taker.ownLeft(counter)).toBe(SIZE - 10)
    })

    test('leave own counts as they are where nothing was given back', async () => {
      const counter = taker.openLeasable(limit)
      await taker.take(90, counter)
      await redis.command('FLUSHALL')
      await other.take(1, other.openLeasable(limit))
      // Redis has lost what it knew, and the own count has not.
      expect(await taker.take(20, counter)).toMatchObject({ outcome: canOverdraw(limit) })
      expect(taker.ownLeft(counter)).toBe(canOverdraw(limit) ? -10 : 10)
    })
  })

  const step = fc.record({
    at: fc.nat(2),
    action: fc.constantFrom('take', 'take', 'take', 'refund', 'pass' as const),
    tokens: fc.integer({ min: 1, max: SIZE }),
  })

  test.each([
    ['a bucket', bucketLimit(1, SIZE), 1],
    ['a window', dayLimit(SIZE), 0],
    ['a bucket that can be overdrawn', overdrawn(bucketLimit(1, SIZE)), 1],
    ['a window that can be overdrawn', overdrawn(dayLimit(SIZE)), 0],
  ] as const)('of %s are there for all instances: together they count as one', async (_, limit, perMs) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        prefixes++
        const instances = [0, 1, 2].map(() => new ClockedInstance(link, `edge:${prefixes}:`))
        let left = SIZE
        for (const { at, action, tokens } of steps) {
          const one = instances[at]!
          const counter = one.openLeasable(limit)
          if (action === 'take') {
            const fits = canOverdraw(limit) ? left > 0 : left >= tokens
            if (fits) left -= tokens
            expect(await one.take(tokens, counter)).toMatchObject({ outcome: fits, levels: [left] })
          } else if (action === 'refund') {
            await one.refund(counter, tokens)
            left = Math.min(SIZE, left + tokens)
          } else {
            pass(tokens)
            left = Math.min(SIZE, left + tokens * perMs)
          }
        }
      }),
      { numRuns: runs(3) },
    )
  })

  test('of a bucket are remembered until the taker has refilled by its own count', async () => {
    const counter = taker.openLeasable(bucketLimit(PER_MS, SIZE))
    await taker.take(SIZE, counter)
    await refund(counter, 95)
    // In Redis it would be full.
    pass(6 / PER_MS)
    expect(await taker.take(SIZE, counter)).toMatchObject({ outcome: true, levels: [0] })
  })

  test('of a bucket are forgotten with a reset', async () => {
    const counter = taker.openLeasable(bucketLimit(PER_MS, SIZE))
    await taker.take(SIZE, counter)
    await refund(counter, 95)
    expect(await redis.command('STRLEN', taker.keyOf(counter))).toBe(48)
    await taker.reset(counter)
    expect(await redis.command('STRLEN', taker.keyOf(counter))).toBe(40)
  })
})
