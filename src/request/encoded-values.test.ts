import { expect, test } from 'vitest'
import { pathSegment } from './encoded-values.ts'

test.each([
  ['/a/b/c', ['a', 'b', 'c', undefined]],
  ['/a/b/', ['a', 'b', '', undefined]],
  ['/', ['', undefined, undefined, undefined]],
  ['/a%2Fb/c;v=1', ['a%2Fb', 'c;v=1', undefined, undefined]],
])('the segments of %s', (path, segments) => {
  expect([1, 2, 3, 4].map((n) => pathSegment(path, n))).toEqual(segments)
})
