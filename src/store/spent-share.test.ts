import { describe, expect, test } from 'vitest'
import { spentShare } from './spent-share.ts'

describe('a lease', () => {
  test('is kept like a day while it has tokens, and before any bucket', () => {
    expect(spentShare(5, 2000, 10, -1, 1999)).toBe(1.5)
    expect(spentShare(5, 2000, 10, -1, 1999)).toBeGreaterThan(spentShare(0, 1999, 10, 1, 1999))
  })

  test('may go when it is over, or used up', () => {
    expect(spentShare(5, 2000, 10, -1, 2000)).toBe(0)
    expect(spentShare(0, 2000, 10, -1, 1999)).toBe(0)
  })
})
