import { expect, test } from 'vitest'
import { secretUsesOf } from './secret-uses.ts'

test('a bundle without backends names no secrets', () => {
  expect(secretUsesOf({ policies: [] })).toEqual([])
  expect(secretUsesOf({ policies: [], backends: { a: {} } })).toEqual([])
})

test('each secret is named once, where it comes first', () => {
  const backends = {
    a: { headers: { authorization: 'Bearer {A}', 'x-org': '{B}{{C}}' } },
    'b.c': { headers: { authorization: '{A}:{D}', plain: 'x' } },
  }
  expect(secretUsesOf({ policies: [], backends })).toEqual([
    { name: 'A', path: 'backends.a.headers.authorization' },
    { name: 'B', path: 'backends.a.headers["x-org"]' },
    { name: 'D', path: 'backends["b.c"].headers.authorization' },
  ])
})
