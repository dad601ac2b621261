import { describe, expect, test } from 'vitest'
import { isRunningOut, refusalMs, tokensToLease } from './lease-returns.ts'

const LEASE_MS = 1000

describe('the tokens to lease', () => {
  test('are what half a lease life would use', () => {
    expect(tokensToLease(300, 1000, LEASE_MS)).toBe(150)
  })

  test('are at most twice what was used, however fast', () => {
    expect(tokensToLease(3, 1, LEASE_MS)).toBe(6)
    expect(tokensToLease(3, 0, LEASE_MS)).toBe(6)
  })

  test('are none where less than one would be used, or nothing was', () => {
    expect(tokensToLease(1, 501, LEASE_MS)).toBe(0)
    expect(tokensToLease(0, 0, LEASE_MS)).toBe(0)
  })

  test('are whole', () => {
    expect(tokensToLease(2.75, 1, LEASE_MS)).toBe(5)
  })
})

describe('what is left runs out', () => {
  test('when an eighth of a lease life would use more', () => {
    expect(isRunningOut(12, 104, 1000, LEASE_MS)).toBe(true)
    expect(isRunningOut(13, 104, 1000, LEASE_MS)).toBe(false)
  })

  test('at no time where use is so slow that the next lease can wait for its need', () => {
    expect(isRunningOut(0, 7, 1000, LEASE_MS)).toBe(false)
  })
})

describe('a refusal is believed', () => {
  test('until there is a token, where few come back', () => {
    expect(refusalMs(0.5, 0, 0.002, 10, LEASE_MS)).toBe(250)
  })

  test('until there is enough to lease some, where many come back', () => {
    expect(refusalMs(0, 20, 1, 1000, LEASE_MS)).toBe(21)
  })

  test('for an eighth of a lease life at most, where a token is there by then', () => {
    expect(refusalMs(0, 400, 1, 10_000, LEASE_MS)).toBe(125)
  })

  test('no longer than a quarter of the bucket takes to fill, so that no refill is lost', () => {
    expect(refusalMs(0, 400, 1, 40, LEASE_MS)).toBe(10)
  })

  test('for a lease life at most: others may give tokens back', () => {
    expect(refusalMs(0, 0, 0.0001, 10, LEASE_MS)).toBe(LEASE_MS)
    expect(refusalMs(-50, 0, 0.01, 10, LEASE_MS)).toBe(LEASE_MS)
  })
})
