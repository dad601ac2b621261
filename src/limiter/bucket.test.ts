import { describe, expect, test } from 'vitest'
import { NEVER, refill, untilFullMs, waitMs } from './bucket.ts'

describe('a bucket below zero', () => {
  test('has nothing against a cost of nothing', () => {
    expect(waitMs(-5, 0, 0.5, 10)).toBe(0)
  })

  test('lets a cost wait for the debt and itself', () => {
    expect(waitMs(-5, 1, 0.5, 10)).toBe(12)
    expect(waitMs(-5, 10, 0.5, 10)).toBe(30)
    expect(waitMs(-500, 10, 0.5, 10)).toBe(1020)
  })

  test('still has no wait for a cost above its size', () => {
    expect(waitMs(-5, 11, 0.5, 10)).toBe(NEVER)
  })

  test('is paid by refill before it is filled by it', () => {
    expect(refill(-5, 100, 0.5, 10, 104)).toBe(-3)
    expect(refill(-5, 100, 0.5, 10, 112)).toBe(1)
    expect(refill(-5, 100, 0.5, 10, 100_000)).toBe(10)
    expect(untilFullMs(-5, 0.5, 10)).toBe(30)
  })
})
