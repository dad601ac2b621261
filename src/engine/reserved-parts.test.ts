import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { runs } from '../../test/support/run/property-runs.ts'
import type { Taken } from '../store/charges.ts'
import { type ReservedPart, ReservedParts } from './reserved-parts.ts'

const isSameWindow = (a: Taken, b: Taken): boolean => a.wallMs === b.wallMs

describe('the parts of a reservation', () => {
  test('are used up from the oldest on', () => {
    const parts = grown([10, 1], [20, 2], [30, 3])
    expect(back(parts, 60)).toEqual([])
    expect(back(parts, 45)).toEqual([[3, 15]])
    expect(back(parts, 30)).toEqual([[3, 30]])
    expect(back(parts, 15)).toEqual([
      [2, 15],
      [3, 30],
    ])
    expect(back(parts, 0)).toEqual([
      [1, 10],
      [2, 20],
      [3, 30],
    ])
  })

  test('leave what exceeds them to the last', () => {
    expect(back(grown([10, 1], [20, 2]), 37)).toEqual([[2, -7]])
    expect(back(grown([10, 1]), 37)).toEqual([[1, -27]])
  })

  test('are at most 16: the two oldest of one window become one', () => {
    const parts = grown([1, 1], ...Array.from({ length: 15 }, (): [number, number] => [10, 2]))
    expect(parts.all).toHaveLength(16)
    expect(parts.add(partOf(10, 2), isSameWindow)).toBeUndefined()
    expect(parts.all.map(({ amount }) => amount)).toEqual([1, 20, ...Array<number>(14).fill(10)])
    expect(parts.amount).toBe(161)
  })

  test('become one that counts as taken when the older was, because a reset may lie between them', () => {
    const parts = grown(...Array.from({ length: 17 }, (_, i): [number, number, number] => [1, 1, i]))
    expect(parts.all.map(({ taken }) => taken.momentMs)).toEqual([0, ...Array.from({ length: 15 }, (_, i) => i + 2)])
  })

  test('are used up where no two are of one window, and stay as they were taken', () => {
    const parts = grown(...Array.from({ length: 16 }, (_, i): [number, number] => [10, i]))
    expect(parts.add(partOf(10, 16), isSameWindow)).toEqual(partOf(10, 0))
    expect(parts.all).toHaveLength(16)
    expect(parts.amount).toBe(170)
    expect(back(parts, 155)).toEqual([
      [15, 5],
      [16, 10],
    ])
    expect(back(parts, 0).map(([window]) => window)).toEqual(Array.from({ length: 16 }, (_, i) => i + 1))
  })

  test('give back what was taken and not used, whatever they are, and no window more than was taken from it', () => {
    const part = fc.record({ amount: fc.nat(1000), window: fc.nat(20) })
    const windows = fc.array(part, { minLength: 1, maxLength: 40 }).map((list) => list.sort((a, b) => a.window - b.window))
    fc.assert(
      fc.property(windows, fc.nat(30_000), (list, used) => {
        const parts = grown(...list.map(({ amount, window }): [number, number] => [amount, window]))
        const taken = list.reduce((sum, { amount }) => sum + amount, 0)
        expect(parts.amount).toBe(taken)
        const corrections = back(parts, used)
        const kept = parts.all.reduce((sum, { amount }) => sum + amount, 0)
        expect(corrections.reduce((sum, [, tokens]) => sum + tokens, 0)).toBe(Math.min(taken - used, kept))
        for (const window of new Set(list.map((each) => each.window))) {
          const of = list.filter((each) => each.window === window).reduce((sum, { amount }) => sum + amount, 0)
          const returned = corrections.filter(([each]) => each === window).reduce((sum, [, tokens]) => sum + tokens, 0)
          expect(returned).toBeLessThanOrEqual(of)
        }
      }),
      { numRuns: runs(100) },
    )
  })
})

function partOf(amount: number, window: number, momentMs = window): ReservedPart {
  return { amount, taken: { wallMs: window, momentMs, from: 'local' } }
}

function grown(...parts: readonly (readonly [amount: number, window: number, momentMs?: number])[]): ReservedParts {
  const [first, ...others] = parts.map((part) => partOf(...part))
  const reserved = new ReservedParts(first!)
  for (const part of others) reserved.add(part, isSameWindow)
  return reserved
}

/** Window and tokens of each part that is corrected. */
function back(parts: ReservedParts, used: number): [number, number][] {
  return Array.from(parts.corrections(used), ([{ taken }, tokens]) => [taken.wallMs, tokens])
}
