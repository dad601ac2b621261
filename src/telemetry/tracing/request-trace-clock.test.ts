import { expect, test } from 'vitest'
import { SpanClock } from './request-trace.ts'

/** Two clocks of one time, of which the wall clock shows whole milliseconds. */
class Time {
  trueMs = 1_700_000_000_000.25
  /** Somebody set the wall clock. */
  setMs = 0

  nowMs(): number {
    return this.trueMs - 1_699_999_000_000
  }

  wallMs(): number {
    return Math.floor(this.trueMs + this.setMs)
  }
}

test('it shows fractions of milliseconds, never goes back, and comes to less than a step of the clock beside the truth', () => {
  const time = new Time()
  const clock = new SpanClock(time)
  let last = 0
  for (let i = 0; i < 1000; i++) {
    time.trueMs += 0.137
    const nowMs = clock.nowMs()
    expect(nowMs).toBeGreaterThan(last)
    expect(Math.abs(nowMs - time.trueMs)).toBeLessThan(1)
    last = nowMs
  }
  expect(Math.abs(last - time.trueMs)).toBeLessThan(0.02)
})

test.each([3_600_000, -3_600_000])('it follows a wall clock that is set by %d ms', (setMs) => {
  const time = new Time()
  const clock = new SpanClock(time)
  clock.nowMs()
  time.setMs = setMs
  expect(Math.abs(clock.nowMs() - (time.trueMs + setMs))).toBeLessThan(1)
})
