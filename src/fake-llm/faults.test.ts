import { expect, test } from 'vitest'
import { FaultDice, readFaults } from './faults.ts'

test.each([
  ['429:0.2', [{ failure: 429, share: 0.2 }]],
  ['reset', [{ failure: 'reset', share: 1 }]],
  ['503', [{ failure: 503, share: 1 }]],
  [
    '429:0.2,503:0.1,reset:0.1,hang:0.05',
    [
      { failure: 429, share: 0.2 },
      { failure: 503, share: 0.1 },
      { failure: 'reset', share: 0.1 },
      { failure: 'hang', share: 0.05 },
    ],
  ],
  [Array.from({ length: 10 }, () => '500:0.1').join(','), Array.from({ length: 10 }, () => ({ failure: 500, share: 0.1 }))],
])('%s is read', (text, faults) => {
  expect(readFaults(text)).toEqual(faults)
})

test.each([
  '',
  ',',
  'constructor',
  '200',
  '399',
  '600',
  '42',
  '429:',
  '429:0',
  '429:2',
  '429:-1',
  '429:1e-1',
  '429:.5',
  'reset:0.6,hang:0.5',
  'reset,429:0.1',
])('%j is refused, with examples', (text) => {
  expect(readFaults(text)).toEqual({
    expected: expect.stringMatching(/^failures such as reset, 429:0\.2 or hang:0\.05, of none, .* or a status/),
  })
})

const FAULTS = [
  { failure: 429, share: 0.2 },
  { failure: 'reset', share: 0.1 },
] as const

function drawn(seed: number, times: number): unknown[] {
  const dice = new FaultDice(seed)
  return Array.from({ length: times }, () => dice.draw(FAULTS))
}

test('the same seed gives the same failures, and another seed others', () => {
  expect(drawn(7, 100)).toEqual(drawn(7, 100))
  expect(drawn(7, 100)).not.toEqual(drawn(8, 100))
})

test('each failure meets its share of the requests, with any seed', () => {
  for (const seed of [0, 1, 2, 2 ** 32 - 1]) {
    const all = drawn(seed, 10_000)
    for (const { failure, share } of FAULTS) {
      const met = all.filter((each) => each === failure).length / all.length
      expect(Math.abs(met - share)).toBeLessThan(0.02)
    }
  }
})

test('without a seed, two backends fail differently', () => {
  const draws = (dice: FaultDice): unknown[] => Array.from({ length: 1000 }, () => dice.draw(FAULTS))
  expect(draws(new FaultDice())).not.toEqual(draws(new FaultDice()))
})
