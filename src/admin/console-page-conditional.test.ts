import { expect, test } from 'vitest'
import { acceptsGzip, hasTag } from './console-page.ts'

test.each([
  [undefined, false],
  ['"a"', true],
  ['W/"a"', true],
  ['"b", W/"a"', true],
  ['*', true],
  ['"b"', false],
  ['a', false],
  ['', false],
])('If-None-Match %s', (field, isFound) => {
  expect(hasTag(field, 'W/"a"')).toBe(isFound)
})

test.each([
  [undefined, false],
  ['gzip, deflate, br', true],
  ['br;q=1, GZIP ; q=0.5', true],
  ['gzip;q=0', false],
  ['gzip; q=0.000', false],
  ['identity', false],
  ['gzipped', false],
  ['', false],
])('Accept-Encoding %s', (field, isAccepted) => {
  expect(acceptsGzip(field)).toBe(isAccepted)
})
