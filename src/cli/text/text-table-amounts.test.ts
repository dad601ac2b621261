import { expect, test } from 'vitest'
import { countText, durationText, moneyText, numberText } from './text-table.ts'

test.each([
  [0, '0 s'],
  [0.2, '1 s'],
  [59.5, '1 min'],
  [61, '1 min 1 s'],
  [3600, '1 h'],
  [3601, '1 h'],
  [7500, '2 h 5 min'],
  [90_000, '1 d 1 h'],
])('%d s is %s', (seconds, text) => {
  expect(durationText(seconds)).toBe(text)
})

test('numbers are grouped, and rounded to two digits', () => {
  expect([numberText(1_048_576), numberText(0.125), countText(1, 'policy', 'policies'), countText(2, 'problem')]).toEqual([
    '1,048,576',
    '0.13',
    '1 policy',
    '2 problems',
  ])
})

test.each([
  [50, '50.00'],
  [0.002, '0.002'],
  [12.3456789, '12.345679'],
])('%d of a currency is %s', (value, text) => {
  expect(moneyText(value)).toBe(text)
})
