import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anyBurst, anyRate, anyShare } from '../support/random/numbers.ts'
import { BUCKET_PLACES } from '../support/store/single-bucket.ts'

/** A request: how long after the one before, how far off the clock is by then, and what it asks for; all as shares. */
const requests = fc.array(fc.record({ gap: anyShare, offset: anyShare, cost: anyShare }), { minLength: 1, maxLength: 40 })

describe.each(BUCKET_PLACES)('a clock that steps, for a bucket in %s', (_, newBucket) => {
  test('back and forth costs or grants at most the refill of its widest step', () => {
    fc.assert(
      fc.property(anyRate, fc.double({ min: 1, max: 1e9, noNaN: true }), requests, (rate, spanMs, list) => {
        // Larger than all refills together, so that none is lost at the brim.
        const burst = rate * spanMs * 4
        const bucket = newBucket(rate, burst, 0)
        const offsets = list.map(({ offset }) => offset * spanMs)
        let trueMs = 0
        let admitted = 0
        bucket.take(burst, offsets[0]!)
        for (const [i, { gap, cost }] of list.entries()) {
          trueMs += (gap * spanMs) / list.length
          const asked = (cost * rate * spanMs) / list.length
          if (bucket.take(asked, trueMs + offsets[i]!).waitMs === 0) admitted += asked
        }
        const refilled = admitted + bucket.take(0, trueMs + offsets.at(-1)!).level
        const stepMs = Math.max(...offsets) - Math.min(...offsets)
        const rounding = burst * 1e-12
        expect(refilled).toBeLessThanOrEqual((trueMs + stepMs) * rate + rounding)
        expect(refilled).toBeGreaterThanOrEqual((trueMs - stepMs) * rate - rounding)
      }),
    )
  })

  test('never grants more than burst + rate × (time + what it stepped forth)', () => {
    fc.assert(
      fc.property(anyRate, anyBurst, requests, (rate, burst, list) => {
        const spanMs = burst / rate
        const bucket = newBucket(rate, burst, 0)
        let clockMs = 0
        let furthestMs = 0
        let admitted = 0
        for (const { gap, offset, cost } of list) {
          clockMs = Math.max(0, clockMs + gap * spanMs + (offset - 0.5) * spanMs)
          furthestMs = Math.max(furthestMs, clockMs)
          if (bucket.take(cost * burst, clockMs).waitMs === 0) admitted += cost * burst
          expect(admitted).toBeLessThanOrEqual((burst + rate * furthestMs) * (1 + 1e-12))
        }
      }),
    )
  })

  test('back leaves a level where it was', () => {
    fc.assert(
      fc.property(anyRate, anyBurst, anyShare, fc.double({ min: 0, max: 1e9, noNaN: true }), (rate, burst, spent, stepMs) => {
        const bucket = newBucket(rate, burst, 1e9)
        const { level } = bucket.take(spent * burst, 1e9)
        expect(bucket.take(0, 1e9 - stepMs).level).toBe(level)
        expect(bucket.take(0, 1e9).level).toBe(level)
      }),
    )
  })
})
