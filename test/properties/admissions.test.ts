import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Admission, worstWindow } from '../support/fleet/admissions.ts'

// Eighths: sums are exact in a double.
const anyAdmission = fc
  .record({ askedMs: fc.nat(200), takenMs: fc.nat(30), cost: fc.integer({ min: 1, max: 80 }) })
  .map(({ askedMs, takenMs, cost }): Admission => ({ askedMs, answeredMs: askedMs + takenMs, cost: cost / 8 }))

test('the worst window is the worst of all windows, tried one by one', () => {
  fc.assert(
    fc.property(fc.array(anyAdmission, { minLength: 1, maxLength: 30 }), fc.nat(40), (admissions, eighths) => {
      const rate = eighths / 8
      const worst = worstWindow(admissions, rate)
      expect(worst.burst).toBe(worst.tokens - rate * (worst.toMs - worst.fromMs))
      expect(worst.burst).toBe(burstOneByOne(admissions, rate))
    }),
  )
})

test('a limit that is kept to the last token is kept, and one token more is seen', () => {
  const at = (ms: number) => ({ askedMs: ms, answeredMs: ms, cost: 1 })
  const kept = [...Array.from({ length: 10 }, () => at(0)), ...Array.from({ length: 50 }, (_, i) => at((i + 1) * 100))]
  expect(worstWindow(kept, 0.01).burst).toBeCloseTo(10, 9)
  expect(worstWindow([...kept, at(2500)], 0.01).burst).toBeCloseTo(11, 9)
})

test('an admission that may have been before the window is not held against it', () => {
  const early = { askedMs: 0, answeredMs: 1000, cost: 5 }
  const late = { askedMs: 900, answeredMs: 1000, cost: 5 }
  expect(worstWindow([early, late], 0.01)).toEqual({ fromMs: 900, toMs: 1000, tokens: 5, burst: 4 })
})

test('nobody let through is no burst', () => {
  expect(worstWindow([], 1)).toEqual({ fromMs: 0, toMs: 0, tokens: 0, burst: 0 })
})

function burstOneByOne(admissions: readonly Admission[], rate: number): number {
  let highest = 0
  for (const { askedMs: fromMs } of admissions) {
    for (const { answeredMs: toMs } of admissions) {
      const inside = admissions.filter(({ askedMs, answeredMs }) => askedMs >= fromMs && answeredMs <= toMs)
      const tokens = inside.reduce((sum, { cost }) => sum + cost, 0)
      if (inside.length > 0) highest = Math.max(highest, tokens - rate * (toMs - fromMs))
    }
  }
  return highest
}
