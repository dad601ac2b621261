import { expect, test } from 'vitest'
import { linePlaces } from '../../console/charts/line-places.ts'

test('lines keep their places when the order of their amounts changes', () => {
  expect(linePlaces(linePlaces([], ['a', 'b', 'c']), ['c', 'a', 'b'])).toEqual(['a', 'b', 'c'])
})

test('a new line takes the place of one that has gone', () => {
  const places = linePlaces(['a', 'b', 'c'], ['c', 'a'])
  expect(places).toEqual(['a', undefined, 'c'])
  expect(linePlaces(places, ['d', 'c', 'a', 'e'])).toEqual(['a', 'd', 'c', 'e'])
})
