import { expect, test } from 'vitest'
import { Backoff, backoffMs } from './clock.ts'

test('the wait doubles with each failure, up to the longest', () => {
  expect([1, 2, 3, 4, 5, 10_000].map((failures) => backoffMs(50, 400, failures))).toEqual([50, 100, 200, 400, 400, 400])
})

test('each wait is shortened by a quarter at most, and begins anew after a reset', () => {
  const backoff = new Backoff(100, 1000)
  for (const fullMs of [100, 200, 400, 800, 1000, 1000]) expectShortened(backoff.nextMs(), fullMs)
  backoff.reset()
  expectShortened(backoff.nextMs(), 100)
})

function expectShortened(waitMs: number, fullMs: number): void {
  expect(waitMs).toBeGreaterThan(fullMs * 0.75)
  expect(waitMs).toBeLessThanOrEqual(fullMs)
}
