import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anyBurst, anyNowMs, anyRate, anyShare, exactBurst, exactRate } from '../support/random/numbers.ts'
import { BUCKET_PLACES } from '../support/store/single-bucket.ts'

/** A few times what a double can tell apart: half a nanosecond when the clock has run for a week. */
const CLOCK_PRECISION = 4 * Number.EPSILON

const smallBurst = fc.oneof(fc.double({ min: 1, max: 2000, noNaN: true }), fc.integer({ min: 1, max: 2000 }))

describe.each(BUCKET_PLACES)('a bucket in %s', (_, newBucket) => {
  test('admits exactly floor(burst) requests at one instant when it is full', () => {
    fc.assert(
      fc.property(anyRate, smallBurst, anyNowMs, (rate, burst, nowMs) => {
        const bucket = newBucket(rate, burst, nowMs)
        let admitted = 0
        for (let i = 0; i < Math.floor(burst) + 3; i++) if (bucket.take(1, nowMs).waitMs === 0) admitted++
        expect(admitted).toBe(Math.floor(burst))
      }),
    )
  })

  test('hands out exactly floor(burst) whole tokens at one instant, however large it is and in whatever portions', () => {
    fc.assert(
      fc.property(anyRate, anyBurst, anyNowMs, fc.array(anyShare, { maxLength: 20 }), (rate, burst, nowMs, shares) => {
        const bucket = newBucket(rate, burst, nowMs)
        let left = Math.floor(burst)
        for (const share of shares) {
          const cost = Math.floor(left * share)
          expect(bucket.take(cost, nowMs).waitMs).toBe(0)
          left -= cost
        }
        expect(bucket.take(left + 1, nowMs).waitMs).toBeGreaterThan(0)
        expect(bucket.take(left, nowMs).waitMs).toBe(0)
        expect(bucket.take(1, nowMs).waitMs).toBeGreaterThan(0)
      }),
    )
  })

  test('never admits more than burst + rate × time in any window', () => {
    // Gaps and costs as shares of the bucket, so that it runs dry and fills up again and again.
    const requests = fc.array(fc.tuple(anyShare, anyShare), { minLength: 1, maxLength: 40 })
    fc.assert(
      fc.property(anyRate, anyBurst, fc.double({ min: 0, max: 1e6, noNaN: true }), requests, (rate, burst, startMs, list) => {
        const bucket = newBucket(rate, burst, startMs)
        const admitted: { atMs: number; cost: number }[] = []
        let nowMs = startMs
        for (const [gap, size] of list) {
          nowMs += (gap * burst) / rate / 4
          const cost = size * burst
          if (bucket.take(cost, nowMs).waitMs === 0) admitted.push({ atMs: nowMs, cost })
        }
        for (const [first, { atMs }] of admitted.entries()) {
          let sum = 0
          for (const later of admitted.slice(first)) {
            sum += later.cost
            expect(sum).toBeLessThanOrEqual((burst + rate * (later.atMs - atMs)) * (1 + 1e-12))
          }
        }
      }),
    )
  })

  test('equals a meter that a take fills and time drains', () => {
    const request = fc.record({ gapMs: fc.integer({ min: 0, max: 5000 }), cost: fc.integer({ min: 0, max: 2 ** 18 }).map((n) => n / 8) })
    fc.assert(
      fc.property(exactRate, exactBurst, fc.integer({ min: 0, max: 2 ** 31 }), fc.array(request), (rate, burst, startMs, requests) => {
        const bucket = newBucket(rate, burst, startMs)
        let nowMs = startMs
        let drawn = 0
        for (const { gapMs, cost } of requests) {
          nowMs += gapMs
          drawn = Math.max(0, drawn - gapMs * rate)
          const fits = drawn + cost <= burst
          if (fits) drawn += cost
          const answer = bucket.take(cost, nowMs)
          expect(answer.waitMs === 0).toBe(fits)
          expect(answer.level).toBe(burst - drawn)
        }
      }),
    )
  })

  test('lets a request pass after the wait that it named', () => {
    fc.assert(
      fc.property(anyRate, anyBurst, anyShare, anyShare, (rate, burst, spent, size) => {
        const bucket = newBucket(rate, burst, 0)
        bucket.take(spent * burst, 0)
        const { waitMs } = bucket.take(size * burst, 0)
        fc.pre(waitMs > 0)
        expect(bucket.take(size * burst, waitMs).waitMs).toBe(0)
      }),
    )
  })

  test('lets a request pass after its wait at any time, long after its last take too, to the precision of the clock', () => {
    fc.assert(
      fc.property(anyRate, anyBurst, anyShare, anyNowMs, anyShare, (rate, burst, size, takenMs, gap) => {
        const bucket = newBucket(rate, burst, takenMs)
        bucket.take(burst, takenMs)
        const nowMs = takenMs + (gap * burst) / rate
        const { waitMs } = bucket.take(size * burst, nowMs)
        fc.pre(waitMs > 0)
        expect(bucket.take(size * burst, (nowMs + waitMs) * (1 + CLOCK_PRECISION)).waitMs).toBe(0)
      }),
    )
  })

  test('names no wait that is longer than it need be', () => {
    fc.assert(
      fc.property(anyRate, anyBurst, anyShare, anyShare, (rate, burst, spent, size) => {
        const bucket = newBucket(rate, burst, 0)
        bucket.take(spent * burst, 0)
        const { waitMs } = bucket.take(size * burst, 0)
        fc.pre(waitMs * rate > burst * 1e-6) // closer than that, the level's own precision decides
        expect(bucket.take(size * burst, waitMs * (1 - 1e-6)).waitMs).toBeGreaterThan(0)
      }),
    )
  })

  test('calls a cost above its size NEVER, empty or full, and takes nothing for it', () => {
    fc.assert(
      fc.property(anyRate, anyBurst, anyShare, anyNowMs, (rate, burst, spent, nowMs) => {
        const bucket = newBucket(rate, burst, nowMs)
        const before = bucket.take(spent * burst, nowMs).level
        expect(bucket.take(burst * (1 + Number.EPSILON), nowMs)).toEqual({ level: before, waitMs: Number.POSITIVE_INFINITY })
        expect(bucket.take(0, nowMs)).toEqual({ level: before, waitMs: 0 })
      }),
    )
  })
})
