import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { highestPeak, scaleCut } from '../../console/charts/chart-scale.ts'

const steady = (count: number, value: number): number[] => Array.from({ length: count }, () => value)

describe('the scale of a chart', () => {
  test('is cut off above one spike, at twice what is ordinary', () => {
    expect(scaleCut([[...steady(200, 10), 1000, ...steady(200, 10)]])).toBe(20)
  })

  test('shows a peak of less than four times the ordinary, and one that lasts', () => {
    expect(scaleCut([[...steady(200, 10), 40]])).toBeUndefined()
    expect(scaleCut([[...steady(200, 10), ...steady(10, 1000)]])).toBeUndefined()
  })

  test('shows the only values of a line that is mostly zero or unknown', () => {
    expect(
      scaleCut([
        [...steady(400, 0), 1000],
        [...steady(400, 0), null],
      ]),
    ).toBeUndefined()
    expect(scaleCut([[null], []])).toBeUndefined()
  })

  test('is that of all lines: a small one beside a large one cuts nothing', () => {
    expect(scaleCut([steady(200, 1000), [...steady(200, 1), 900]])).toBeUndefined()
  })

  test('cuts off at most one value in fifty', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 1e9, noNaN: true }), { maxLength: 500 }), (values) => {
        const cut = scaleCut([values])
        const above = values.filter((value) => cut !== undefined && value > cut)
        expect(above.length).toBeLessThanOrEqual(values.length / 50 + 1)
        if (cut !== undefined) expect(above.length).toBeGreaterThan(0)
      }),
    )
  })
})

test('the highest value is that of any line', () => {
  expect(
    highestPeak([
      [1, 5, null],
      [null, 2, 9],
    ]),
  ).toEqual({ line: 1, index: 2, value: 9 })
  expect(highestPeak([[null]])).toBeUndefined()
})
