import { expect, test } from 'vitest'
import { pollDelayMs } from './bundle-url.ts'

test('polls come ten percent earlier or later than the interval', () => {
  expect([0, 0.5, 1].map((random) => pollDelayMs(30_000, 0, random))).toEqual([27_000, 30_000, 33_000])
})

test('after failures they come after 1 s, doubled each time, up to the interval, with the same jitter', () => {
  const delays = [1, 2, 3, 4, 5, 6, 7, 5000].map((failures) => pollDelayMs(30_000, failures, 0.5))
  expect(delays).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000])
  expect([0, 1].map((random) => pollDelayMs(30_000, 2, random))).toEqual([1800, 2200])
})

test('an interval below a second is not made longer by a failure', () => {
  expect([0, 1, 9].map((failures) => pollDelayMs(100, failures, 0.5))).toEqual([100, 100, 100])
})
