import { expect, test } from 'vitest'
import { parseQuery } from './api-request.ts'

test('a query has a hundred parameters at most, and is not parsed where it has more', () => {
  expect([...parseQuery(`?${'a=1&'.repeat(99)}a=2`)]).toHaveLength(100)
  expect([...parseQuery('')]).toEqual([])
  expect(() => parseQuery(`?${'a&'.repeat(30_000)}`)).toThrow('more than 100 parameters')
})
