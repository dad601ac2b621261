import { describe, expect, test } from 'vitest'
import { Matches, RouteIndex } from './routes.ts'

interface Route {
  readonly index: number
  readonly isShadow: boolean
}

type Selector = Parameters<RouteIndex<Route>['add']>[1]

describe('a path prefix covers whole segments', () => {
  test.each([
    ['/api', '/api', true],
    ['/api', '/api/', true],
    ['/api', '/api/x', true],
    ['/api', '/apix', false],
    ['/api', '/', false],
    ['/api', '/x/api', false],
    ['/api/', '/api', true],
    ['/api/', '/api/x/y', true],
    ['/api/', '/apix', false],
    ['/api/v1', '/api', false],
    ['/', '/', true],
    ['/', '/anything/at/all', true],
    ['//api', '/api/x', true],
    ['/%61pi', '/api', true],
    ['/é', '/%C3%A9/x', true],
  ])('%s and %s: %s', (pathPrefix, path, covers) => {
    expect(covered([{ pathPrefix }], path)).toEqual(covers ? [0] : [])
  })
})

describe('an exact path covers itself alone', () => {
  test.each([
    ['/api', '/api', true],
    ['/api', '/api/', false],
    ['/api', '/api/x', false],
    ['/api/', '/api/', true],
    ['/api/', '/api', false],
    ['/', '/', true],
    ['/', '/api', false],
    ['/x/../api', '/api', true],
  ])('%s and %s: %s', (pathExact, path, covers) => {
    expect(covered([{ pathExact }], path)).toEqual(covers ? [0] : [])
  })
})

describe('hosts', () => {
  test.each([
    ['example.com', 'example.com', true],
    ['example.com', 'a.example.com', false],
    ['Example.com:443', 'example.com', true],
    ['*.example.com', 'a.example.com', true],
    ['*.example.com', 'b.a.example.com', true],
    ['*.example.com', 'example.com', false],
    ['*.example.com', 'aexample.com', false],
    ['[::1]', '::1', true],
  ])('%s covers %s: %s', (pattern, host, covers) => {
    expect(covered([{ hosts: [pattern] }], '/', host)).toEqual(covers ? [0] : [])
  })

  test('that meet a request twice count once', () => {
    expect(
      covered([{ hosts: ['*.example.com', '*.a.example.com', 'b.a.example.com', 'B.A.example.com'] }], '/', 'b.a.example.com'),
    ).toEqual([0])
  })

  test('leave a request undecided that names none, where an enforcing policy meets its path and method', () => {
    const selector = { pathPrefix: '/api', methods: ['POST'], hosts: ['a.com'] }
    expect(isDecided([selector], '/api/x', 'POST')).toBe(false)
    expect(isDecided([selector], '/api/x', 'GET')).toBe(true)
    expect(isDecided([selector], '/other', 'POST')).toBe(true)
    expect(isDecided([{ ...selector, isShadow: true }], '/api/x', 'POST')).toBe(true)
    expect(isDecided([{ pathPrefix: '/api' }], '/api/x', 'POST')).toBe(true)
  })

  test('of a shadow policy cover no request that names none', () => {
    expect(covered([{ hosts: ['a.com'], isShadow: true }, {}], '/', '')).toEqual([1])
  })

  test('are asked for only when some policy has any', () => {
    expect(indexOf([{ pathPrefix: '/a' }]).usesHosts).toBe(false)
    expect(indexOf([{ pathPrefix: '/a' }, { hosts: ['a.com'] }]).usesHosts).toBe(true)
  })
})

test('methods in any case cover what comes in upper case', () => {
  const selectors = [{ methods: ['get', 'Post', 'GET'] }, {}, { methods: ['PUT'] }]
  expect(covered(selectors, '/', '', 'GET')).toEqual([0, 1])
  expect(covered(selectors, '/', '', 'POST')).toEqual([0, 1])
  expect(covered(selectors, '/', '', 'DELETE')).toEqual([1])
})

test('policies come in bundle order, whatever part of the index they were found in', () => {
  const selectors = [
    { pathExact: '/a/b' },
    { pathPrefix: '/a/b' },
    { pathPrefix: '/a', methods: ['GET'] },
    {},
    { pathPrefix: '/a/b' },
    { hosts: ['h'] },
  ]
  expect(covered(selectors, '/a/b', 'h')).toEqual([0, 1, 2, 3, 4, 5])
})

test('a hundred policies that all match come in bundle order too, and a match after them sees none of them', () => {
  const selectors = Array.from({ length: 100 }, (_, i) => (i % 2 ? {} : { pathPrefix: '/a' }))
  const index = indexOf(selectors)
  const found = new Matches<Route>()
  index.match('/a', '', 'GET', found)
  expect(found.policies.slice(0, found.count).map((policy) => policy!.index)).toEqual(selectors.map((_, i) => i))
  index.match('/b', '', 'GET', found)
  expect(found.count).toBe(50)
  expect(found.policies.slice(0, found.count).every((policy) => policy!.index % 2 === 1)).toBe(true)
})

function indexOf(selectors: readonly (Selector & { isShadow?: boolean })[]): RouteIndex<Route> {
  const routes = new RouteIndex<Route>()
  for (const [index, { isShadow = false, ...selector }] of selectors.entries()) routes.add({ index, isShadow }, selector)
  return routes
}

function covered(selectors: readonly (Selector & { isShadow?: boolean })[], path: string, host = '', method = 'GET'): number[] {
  const found = new Matches<Route>()
  indexOf(selectors).match(path, host, method, found)
  return found.policies.slice(0, found.count).map((policy) => policy!.index)
}

function isDecided(selectors: readonly (Selector & { isShadow?: boolean })[], path: string, method: string): boolean {
  return indexOf(selectors).match(path, '', method, new Matches<Route>())
}
