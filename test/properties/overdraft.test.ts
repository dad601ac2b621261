import fc from 'fast-check'
import { expect, test } from 'vitest'
import { calendarOf, PERIODS } from '../../src/limiter/calendar.ts'
import { WINDOW } from '../../src/limiter/limit.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { anyBurst, anyRate, anyShare } from '../support/random/numbers.ts'
import { bucketLimit, overdrawn, type TokenLimit, takeRowsNow } from '../support/store/charging.ts'

const START_MS = Date.UTC(2026, 2, 29)

const anyWindow = fc
  .tuple(fc.integer({ min: 1, max: 2 ** 40 }), fc.constantFrom(...PERIODS), fc.constantFrom('UTC', 'Europe/Berlin'))
  .map(([tokens, period, zone]): TokenLimit => ({ kind: WINDOW, tokens, calendar: calendarOf(period, zone), canOverdraw: true }))
const anyBucket = fc.tuple(anyRate, anyBurst).map(([rate, burst]): TokenLimit => overdrawn(bucketLimit(rate, burst)))
const steps = fc.array(
  fc.record({ share: fc.oneof(anyShare, fc.constantFrom(0, 1, 3, 1000)), gapMs: fc.oneof(fc.nat(100), fc.nat(100_000)) }),
)

test('a limit that can be overdrawn owes one request at most, takes nothing when it refuses, and passes after the wait it named', () => {
  fc.assert(
    fc.property(fc.oneof(anyBucket, anyWindow), steps, (limit, list) => {
      const store = newEmbeddedStore(64 * 1024)
      const counter = store.open({ identity: ['r'], limit, sinceMs: 0 })
      const size = limit.kind === WINDOW ? limit.tokens : limit.burst
      const take = (cost: number, ms: number) => takeRowsNow(store, [{ counter, cost }], ms, START_MS + ms)
      let nowMs = 0
      let highest = 0
      for (const { share, gapMs } of list) {
        nowMs += gapMs
        const cost = share * size
        const { taken, levels, waitsMs } = take(cost, nowMs)
        if (taken) {
          highest = Math.max(highest, cost)
          expect(levels[0]).toBeGreaterThanOrEqual(-highest)
          continue
        }
        expect(levels[0]).toBeLessThanOrEqual(0)
        expect(take(0, nowMs)).toEqual({ taken: false, levels, waitsMs })
        // Beyond some thousand years, clocks and levels have no room for a millisecond's refill.
        if (waitsMs[0]! > 1e14) return
        nowMs += waitsMs[0]!
        expect(take(0, nowMs).taken).toBe(true)
      }
    }),
  )
})

test('over any time, it admits its size, what was refilled, and one request', () => {
  fc.assert(
    fc.property(anyRate, anyBurst, steps, (rate, burst, list) => {
      const store = newEmbeddedStore(64 * 1024)
      const counter = store.open({ identity: ['r'], limit: overdrawn(bucketLimit(rate, burst)), sinceMs: 0 })
      let [nowMs, admitted, highest] = [0, 0, 0]
      for (const { share, gapMs } of list) {
        nowMs += gapMs
        if (takeRowsNow(store, [{ counter, cost: share * burst }], nowMs).taken) {
          admitted += share * burst
          highest = Math.max(highest, share * burst)
        }
        expect(admitted).toBeLessThanOrEqual((burst + rate * nowMs + highest) * (1 + 1e-9))
      }
    }),
  )
})
