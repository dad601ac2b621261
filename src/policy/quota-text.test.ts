import { describe, expect, test } from 'vitest'
import { BUCKET, type Limit } from '../limiter/limit.ts'
import { parseRate, refillRate } from './algorithms/rate.ts'
import { quotaText } from './quota-text.ts'

function bucket(burst: number, tokensPerMs: number): Limit {
  return { kind: BUCKET, burst, tokensPerMs: refillRate(tokensPerMs), canOverdraw: false }
}

const SECONDS = { second: 1, minute: 60, hour: 3600, day: 86_400 } as const

describe('the window of a bucket', () => {
  test.each(Object.entries(SECONDS))('of one %s is a whole one, however the rate is rounded', (unit, seconds) => {
    const wrong: string[] = []
    for (let count = 1; count <= 2000; count++) {
      const text = quotaText(bucket(count, parseRate(`${count}/${unit}`)!.tokensPerMs), String(count))
      if (text !== `;q=${count};w=${seconds}`) wrong.push(text)
    }
    expect(wrong).toEqual([])
  })

  test('is left out where it is no integer of a structured field', () => {
    expect(quotaText(bucket(999_999_999, 1e-9), '999999999')).toBe(';q=999999999;w=999999999000000')
    expect(quotaText(bucket(999_999_999_999_999, 1e-9), '999999999999999')).toBe(';q=999999999999999')
  })
})
