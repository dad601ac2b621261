import fc from 'fast-check'
import { expect, test } from 'vitest'
import { RECENT_MS, RecentBytes } from './body-claims.ts'

test('counts what came in the last five seconds, and nothing that is older than six', () => {
  const arrivals = fc.array(fc.record({ gapMs: fc.nat(4000), bytes: fc.nat(1000) }), { minLength: 1, maxLength: 30 })
  fc.assert(
    fc.property(arrivals, fc.nat(8000), (pieces, restMs) => {
      let nowMs = 123_456
      const recent = new RecentBytes(nowMs)
      const seen: { atMs: number; bytes: number }[] = []
      for (const { gapMs, bytes } of pieces) {
        nowMs += gapMs
        recent.add(bytes, nowMs)
        seen.push({ atMs: nowMs, bytes })
      }
      nowMs += restMs
      const since = (ms: number): number => seen.reduce((sum, { atMs, bytes }) => (nowMs - atMs < ms ? sum + bytes : sum), 0)
      const sum = recent.sum(nowMs)
      expect(sum).toBeGreaterThanOrEqual(since(RECENT_MS))
      expect(sum).toBeLessThanOrEqual(since(RECENT_MS + 1000))
    }),
  )
})
