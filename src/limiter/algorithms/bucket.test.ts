import { describe, expect, test } from 'vitest'
import { BUCKET, type BucketLimit, type CounterRecord, NEVER } from '../limit.ts'
import { bucket } from './bucket.ts'

const limit: BucketLimit = { kind: BUCKET, tokensPerMs: 0.5, burst: 10 }

function recordAt(level: number, at: number, of: BucketLimit = limit): CounterRecord {
  return { kind: BUCKET, level, at, size: of.burst, rate: of.tokensPerMs }
}

describe('a bucket below zero', () => {
  test('has nothing against a cost of nothing', () => {
    expect(bucket.waitMs(limit, -5, 0, 0)).toBe(0)
  })

  test('lets a cost wait for the debt and itself', () => {
    expect(bucket.waitMs(limit, -5, 1, 0)).toBe(12)
    expect(bucket.waitMs(limit, -5, 10, 0)).toBe(30)
    expect(bucket.waitMs(limit, -500, 10, 0)).toBe(1020)
  })

  test('still has no wait for a cost above its size', () => {
    expect(bucket.waitMs(limit, -5, 11, 0)).toBe(NEVER)
  })

  test('is paid by refill before it is filled by it', () => {
    const levelAt = (nowMs: number): number => {
      const record = recordAt(-5, 100)
      bucket.refresh(limit, record, 0, nowMs)
      return record.level
    }
    expect([levelAt(104), levelAt(112), levelAt(100_000)]).toEqual([-3, 1, 10])
    expect(bucket.resetMs(limit, -5, 0)).toBe(30)
  })
})

describe('a bucket', () => {
  test('that begins is full, of its own kind, and could be forgotten', () => {
    const record = recordAt(1, 1)
    bucket.begin(limit, record, 77, 0)
    expect(record).toEqual({ kind: BUCKET, level: 10, at: 77, size: 10, rate: 0.5 })
    expect(bucket.worthMs(record, 78, 0)).toBe(0)
  })

  test('that was rounded to 24 bits is the same limit still', () => {
    const odd: BucketLimit = { kind: BUCKET, tokensPerMs: 0.1, burst: 10.3 }
    const record = recordAt(0, 0, { ...odd, tokensPerMs: Math.fround(0.1), burst: Math.fround(10.3) })
    bucket.refresh(odd, record, 50, 100)
    expect(record.level).toBe(100 * 0.1)
  })

  test('is worth the time until it is full, debts included, and nothing once refill has made up for what was taken', () => {
    expect(bucket.worthMs(recordAt(0, 0), 0, 0)).toBeCloseTo(20, 4)
    expect(bucket.worthMs(recordAt(-40, 0), 0, 0)).toBeCloseTo(100, 4)
    expect(bucket.worthMs(recordAt(0, 0), 10, 0)).toBeCloseTo(10, 4)
    expect(bucket.worthMs(recordAt(0, 0), 21, 0)).toBe(0)
  })
})
