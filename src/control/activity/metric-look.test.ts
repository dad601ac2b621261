import fc from 'fast-check'
import { expect, test } from 'vitest'
import { busiest } from './metric-look.ts'

test('the busiest are those that sorting would put first, without those that did nothing', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20)), fc.integer({ min: 1, max: 10 }), (scores, count) => {
      const items = scores.map((score, place) => ({ score, place }))
      const sorted = items.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score)
      expect(busiest(items, count, ({ score }) => score)).toEqual(sorted.slice(0, count))
    }),
  )
})
