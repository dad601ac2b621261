import { describe, expect, test } from 'vitest'
import { hasSixDecimals, microOf, nanoOf, readNano } from './money.ts'

describe('a cost in a header field', () => {
  test.each([
    ['0.0125', 12_500_000],
    ['1', 1_000_000_000],
    ['0.000000001', 1],
    ['0.07', 70_000_000],
    ['9000000', 9_000_000_000_000_000],
    ['8999999.999999999', 8_999_999_999_999_999],
    ['0000000000000000000000000000002.50', 2_500_000_000],
  ])('%s is exact', (text, nano) => {
    expect(readNano(text)).toBe(nano)
  })

  test.each([
    ['0.0000000001', 1],
    ['0.0000000010', 1],
    ['1.00000000000000000000000000000001', 1_000_000_001],
  ])('%s is rounded up to a billionth', (text, nano) => {
    expect(readNano(text)).toBe(nano)
  })

  test.each([
    '',
    ' ',
    ' 1',
    '1 ',
    '0',
    '0.0',
    '-1',
    '+1',
    '-0.5',
    'NaN',
    'nan',
    'Infinity',
    'inf',
    '1e3',
    '1E-9',
    '0x10',
    '.5',
    '5.',
    '1,5',
    '1_000',
    '１',
    '1.2.3',
    '$1',
  ])('%j is not a positive number in plain decimals', (text) => {
    expect(readNano(text)).toBe(0)
  })

  test('that is larger than any budget stays a number that can be counted', () => {
    expect(readNano('9'.repeat(5000))).toBe(Number.MAX_SAFE_INTEGER)
    expect(readNano(`${'9'.repeat(32)}.${'9'.repeat(32)}`)).toBe(Number.MAX_SAFE_INTEGER)
  })
})

describe('a number of units', () => {
  test.each([
    [0, 0],
    [0.07, 70_000_000],
    [0.1 + 0.2, 300_000_001],
    [1.1, 1_100_000_000],
    [4.35, 4_350_000_000],
    [1e-9, 1],
    [1e-10, 1],
    [9_000_000, 9e15],
    [1e300, Number.MAX_SAFE_INTEGER],
    [Number.POSITIVE_INFINITY, Number.MAX_SAFE_INTEGER],
  ])('%d is exact where it has nine decimals, and else rounded up', (units, nano) => {
    expect(nanoOf(units)).toBe(nano)
  })

  test.each([-1, -1e-9, Number.NaN, Number.NEGATIVE_INFINITY])('%d is not an amount', (units) => {
    expect(nanoOf(units)).toBeUndefined()
  })
})

test('a bundle writes money with at most six decimals', () => {
  for (const units of [0, 1, 0.15, 1.25, 0.000001, 0.1, 8_999_999.999999, 123_456.654321]) {
    expect([hasSixDecimals(units), microOf(units)]).toEqual([true, Number((units * 1e6).toFixed(0))])
  }
  for (const units of [0.0000001, 1.2345678, 1 / 3, Number.NaN]) expect(hasSixDecimals(units)).toBe(false)
})
