import { describe, expect, test } from 'vitest'
import { requestFacts } from '../../test/support/costs/request-facts.ts'
import { FixedCost, HeaderCost } from './request-costs.ts'

const MAX = 100
const DEFAULT = 7
const cost = new HeaderCost({ header: 'x-cost', default: DEFAULT, max: MAX })

function costOf(value: string | undefined | null): number {
  return cost.of(requestFacts({ headerText: (name) => (name === 'x-cost' ? value : '55') }))
}

describe('the cost in a header field', () => {
  test.each([
    ['1', 1],
    ['2.5', 2.5],
    ['0.000000001', 1e-9],
    ['007', 7],
    ['100', MAX],
  ])('%s is what it says', (text, amount) => {
    expect(costOf(text)).toBe(amount)
  })

  test.each(['100.0001', '101', '9'.repeat(15), '9'.repeat(400), `${'9'.repeat(20_000)}.5`])(
    '%.20s is above the maximum, and counts as it',
    (text) => {
      expect(costOf(text)).toBe(MAX)
    },
  )

  const BAD = [
    '',
    '0',
    '0.0',
    `0.${'0'.repeat(400)}1`,
    'NaN',
    'nan',
    'Infinity',
    '-Infinity',
    'inf',
    '-1',
    '-0',
    '+1',
    '1e2',
    '1E2',
    '1e-400',
    '0x10',
  ]
  const WORSE = [
    '0b1',
    '0o7',
    '1_000',
    '1,000',
    '1,5',
    '.5',
    '5.',
    '1.2.3',
    ' 1',
    '1 ',
    '1 2',
    '\t1',
    '1;2',
    '1, 2',
    '١',
    '１',
    '1n',
    'null',
    '[1]',
    '"1"',
  ]
  test.each([...BAD, ...WORSE])('%s is no positive number, and counts as the default', (text) => {
    expect(costOf(text)).toBe(DEFAULT)
  })

  test('is the default where the field is missing', () => {
    expect(costOf(undefined)).toBe(DEFAULT)
  })

  test('is unknown where the field is repeated', () => {
    expect(costOf(null)).toBeNaN()
  })

  test('is read from that field, needs no body, and is never pre-fetched or settled', () => {
    expect(cost).toMatchObject({ header: 'x-cost', needsBody: false, isLeasable: false, settling: undefined })
  })
})

describe('a number given with the question', () => {
  test.each([
    ['a header field', cost],
    ['a fixed cost', new FixedCost(3)],
  ])('replaces %s, even 0 or one above the maximum', (_, each) => {
    for (const given of [0, 1, 500]) expect(each.of(requestFacts({ given, isGiven: true, headerText: () => null }))).toBe(given)
  })
})

test('a fixed cost is the same for each request, and never pre-fetched', () => {
  const fixed = new FixedCost(2.5)
  expect(fixed.of(requestFacts({ path: '/x', headerText: () => '9' }))).toBe(2.5)
  expect(fixed).toMatchObject({ needsBody: false, isLeasable: false, settling: undefined })
})
