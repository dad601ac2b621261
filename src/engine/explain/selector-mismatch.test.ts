import { expect, test } from 'vitest'
import { mismatchOf } from './selector-mismatch.ts'

test.each([
  [{}, undefined],
  [{ pathPrefix: '/' }, undefined],
  [{ pathPrefix: '/api' }, undefined],
  [{ pathPrefix: '/api/' }, undefined],
  [{ pathPrefix: '/x/../%61pi' }, undefined],
  [{ pathPrefix: '/ap' }, 'path'],
  [{ pathPrefix: '/api/users/7' }, 'path'],
  [{ pathExact: '/api/users' }, undefined],
  [{ pathExact: '/api/users/' }, 'path'],
  [{ pathExact: '/api' }, 'path'],
  [{ methods: ['get', 'post'] }, undefined],
  [{ methods: ['PUT'] }, 'method'],
  [{ hosts: ['A.example.com:8080'] }, undefined],
  [{ hosts: ['b.example.com', '*.Example.com'] }, undefined],
  [{ hosts: ['*.a.example.com'] }, 'host'],
  [{ hosts: ['example.com'] }, 'host'],
])('a POST to a.example.com/api/users and %j: %s', (selector, why) => {
  expect(mismatchOf(selector, '/api/users', 'a.example.com', 'POST')).toBe(why)
})

test('the path comes first, then the method, then the host', () => {
  const selector = { pathExact: '/x', methods: ['GET'], hosts: ['a.test'] }
  expect(mismatchOf(selector, '/y', 'b.test', 'POST')).toBe('path')
  expect(mismatchOf(selector, '/x', 'b.test', 'POST')).toBe('method')
  expect(mismatchOf(selector, '/x', 'b.test', 'GET')).toBe('host')
  expect(mismatchOf(selector, '/x', 'a.test', 'GET')).toBeUndefined()
})

test('who names no host is of none', () => {
  expect(mismatchOf({ hosts: ['a.test', '*.test'] }, '/', '', 'GET')).toBe('host')
})
