import { describe, expect, test } from 'vitest'
import { planOf } from '../../../test/support/bundles/compiled-rule.ts'
import { requestWith, routed } from '../../../test/support/bundles/routed-bundles.ts'
import { UNDECIDED, UNREADABLE } from '../../request/descriptors.ts'
import { REPEATED } from '../../request/view.ts'
import type { Choice, RetryPolicy } from './routing.ts'

const TO_A = { backends: [{ name: 'a' }] }
const MODEL = { 'llm:model': 'gpt-4o' }

describe('the route of a request', () => {
  test('is the first that covers it, whatever the other selectors are', () => {
    const chosen = chooser([
      { selector: { pathPrefix: '/v1/chat', methods: ['POST'] }, ...TO_A },
      { selector: { hosts: ['*.example.com'] }, ...TO_A },
      { selector: { pathPrefix: '/v1', exceptPaths: ['/v1/admin'] }, ...TO_A },
      { selector: { pathExact: '/v1/chat' }, ...TO_A },
      { selector: { pathPrefix: '/v1' }, match: { 'header:x-tier': 'gold' }, ...TO_A },
    ])
    expect(chosen({ path: '/v1/chat', method: 'POST' })).toBe(0)
    expect(chosen({ path: '/v1/chat', method: 'POST', host: 'api.example.com' })).toBe(0)
    expect(chosen({ path: '/v1/chat', host: 'api.example.com' })).toBe(1)
    expect(chosen({ path: '/v1/chat' })).toBe(2)
    expect(chosen({ path: '/v1/admin/x' })).toBeUndefined()
    expect(chosen({ path: '/v1/admin/x', values: { 'header:x-tier': 'gold' } })).toBe(4)
    expect(chosen({ path: '/v2' })).toBeUndefined()
  })

  test('needs every key of its match, and one of the patterns of each', () => {
    const chosen = chooser([{ match: { 'header:x-tier': ['gold', 'silver-*'], 'ip:country': 'DE' }, ...TO_A }, TO_A])
    const with_ = (tier: unknown, country: unknown) => chosen({ values: { 'header:x-tier': tier, 'ip:country': country } })
    expect([with_('gold', 'DE'), with_('silver-2', 'DE'), with_('silver', 'DE'), with_('gold', 'FR'), with_(undefined, 'DE')]).toEqual([
      0, 0, 1, 1, 1,
    ])
  })

  test('is found among many by the value of a key, in bundle order', () => {
    const many = Array.from({ length: 500 }, (_, i) => ({ match: { 'llm:model': [`m-${i}`, `p${i % 7}-*`] }, ...TO_A }))
    const chosen = chooser([...many, TO_A])
    expect([0, 250, 499].map((i) => chosen({ values: { 'llm:model': `m-${i}` } }))).toEqual([0, 250, 499])
    expect(chosen({ values: { 'llm:model': 'p3-x' } })).toBe(3)
    expect(chosen({ values: { 'llm:model': 'other' } })).toBe(500)
    expect(chosen({ values: { 'llm:model': UNREADABLE } })).toBe(500)
  })

  test('is found among many by the network of an address, in bundle order', () => {
    const many = Array.from({ length: 200 }, (_, i) => ({
      match: { 'ip:address': [`10.${i}.0.0/16`, `2001:db8:${i.toString(16)}::/48`] },
      ...TO_A,
    }))
    const chosen = chooser([
      { match: { 'ip:address': '10.7.9.0/24', 'ip:country': 'DE' }, ...TO_A },
      ...many,
      { match: { 'ip:address': '10.0.0.0/8' }, ...TO_A },
      TO_A,
    ])
    const from = (address: string, country = 'FR') => chosen({ values: { 'ip:address': address, 'ip:country': country } })
    expect([from('10.7.9.1', 'DE'), from('10.7.9.1'), from('10.199.0.1'), from('10.200.0.1'), from('11.0.0.1')]).toEqual([
      0, 8, 200, 201, 202,
    ])
    expect([from('2001:db8:7:1::/64'), from('2001:db8:ff:1::/64'), from('not an address')]).toEqual([8, 202, 202])
  })

  test('is not guessed where a value that decides can be read in more than one way', () => {
    const chosen = chooser([
      { match: { 'header:x-tier': 'gold', 'ip:country': 'DE' }, ...TO_A },
      { match: { 'header:x-tier': 'silver' }, ...TO_A },
      { match: { 'ip:country': 'FR' }, ...TO_A },
    ])
    expect(chosen({ values: { 'header:x-tier': REPEATED } })).toBe('repeated_descriptor')
    expect(chosen({ values: { 'header:x-tier': 'gold', 'ip:country': REPEATED } })).toBe('repeated_descriptor')
    expect(chooser([TO_A, { match: { 'header:x-tier': 'gold' }, ...TO_A }])({ values: { 'header:x-tier': REPEATED } })).toBe(0)
    expect(chooser([{ match: MODEL, ...TO_A }])({ values: { 'llm:model': UNDECIDED } })).toBe('repeated_descriptor')
  })
})

describe('a body is read for routing', () => {
  test('if a route that may come first reads the model', () => {
    const needs = asker([
      { selector: { pathPrefix: '/free' }, ...TO_A },
      { selector: { pathPrefix: '/v1' }, match: { 'header:x-tier': 'gold', ...MODEL }, ...TO_A },
      { selector: { pathPrefix: '/v1' }, match: { 'header:x-tier': 'silver' }, ...TO_A },
      { selector: { pathPrefix: '/v2' }, match: MODEL, ...TO_A },
      TO_A,
    ])
    expect(needs({ path: '/free' })).toBe(false)
    expect(needs({ path: '/v1', values: { 'header:x-tier': 'gold' } })).toBe(true)
    expect(needs({ path: '/v1', values: { 'header:x-tier': 'silver' } })).toBe(false)
    expect(needs({ path: '/v1', values: { 'header:x-tier': REPEATED } })).toBe(false)
    expect(needs({ path: '/v2' })).toBe(true)
    expect(needs({ path: '/other' })).toBe(false)
  })

  test('if many routes read the model beside the same other key, only where that key fits', () => {
    const many = Array.from({ length: 50 }, (_, i) => ({ match: { 'header:x-tier': 'gold', 'llm:model': `m-${i}` }, ...TO_A }))
    const needs = asker(many)
    expect([needs({ values: { 'header:x-tier': 'gold' } }), needs({ values: { 'header:x-tier': 'other' } }), needs({})]).toEqual([
      true,
      false,
      false,
    ])
  })

  test('if the route replaces the model, or sticks to it', () => {
    expect(asker([{ backends: [{ name: 'a', model: 'x' }] }])({})).toBe(true)
    expect(asker([{ backends: [{ name: 'a' }], fallback: [{ name: 'b', model: 'x' }] }])({})).toBe(true)
    expect(asker([{ backends: [{ name: 'a' }, { name: 'b' }], stick_to: ['llm:model'] }])({})).toBe(true)
    expect(asker([{ backends: [{ name: 'a' }, { name: 'b', weight: 0, model: 'x' }] }])({})).toBe(false)
  })
})

describe('a planned route', () => {
  test('has its choices, the models that it may send, and its keys', () => {
    const { routing, keys } = planOf(
      routed([
        {
          backends: [
            { name: 'a', weight: 3 },
            { name: 'b', model: 'x' },
          ],
          fallback: [
            { name: 'c', model: 'y' },
            { name: 'c', model: 'x' },
          ],
          stick_to: ['header:X-User', 'ip:address'],
        },
        { backends: [{ name: 'a', model: 'x' }] },
      ]),
    )
    const [first, second] = routing!.routes
    expect(first!.group.map(shown)).toEqual([
      ['a', 3, undefined],
      ['b', 1, 'x'],
    ])
    expect(first!.fallback.map(({ backend, model }) => [backend, model])).toEqual([
      [routing!.backends.get('c'), 'y'],
      [routing!.backends.get('c'), 'x'],
    ])
    expect(first).toMatchObject({ number: 0, models: ['x', 'y'], keepsModel: true, needsBody: true })
    expect(second).toMatchObject({ number: 1, models: ['x'], keepsModel: false, stickTo: [] })
    expect(first!.stickTo.map(({ keyIndex }) => keys[keyIndex]!.text)).toEqual(['header:x-user', 'ip:address'])
  })

  test('is tried again after a failed connection, once, unless it says more', () => {
    expect(retryOf(undefined)).toMatchObject({ attempts: 1, connect: true, timeout: false })
    const { handles, ...more } = retryOf({ on: ['timeout', 429, '503'], attempts: 2 })
    expect(more).toEqual({ attempts: 2, connect: false, timeout: true, repeatsSent: true })
    expect([retryOf(undefined), retryOf({ on: ['5xx'], attempts: 0 })]).toMatchObject([{ repeatsSent: false }, { repeatsSent: false }])
    expect([429, 503, 500, 200].map(handles)).toEqual([true, true, false, false])
    expect([499, 500, 599, 600].map(retryOf({ on: ['5xx'] }).handles)).toEqual([false, true, true, false])
  })
})

test('a bundle without routes has no routing', () => {
  const { routes: _, ...withoutRoutes } = routed([TO_A]) as { routes: unknown }
  expect([planOf(withoutRoutes).routing, planOf({ bundle_version: 1, policies: [] }).routing]).toEqual([undefined, undefined])
})

function retryOf(retry: object | undefined): RetryPolicy {
  return planOf(routed([{ backends: [{ name: 'a' }, { name: 'b' }, { name: 'c' }], ...(retry && { retry }) }])).routing!.routes[0]!.retry
}

function shown({ backend, weight, model }: Choice): unknown[] {
  return [backend.name, weight, model]
}

type Given = Parameters<typeof requestWith>[1]

/** Returns the number of the route that is chosen. */
function chooser(routes: readonly object[]): (given: Given) => number | string | undefined {
  const plan = planOf(routed(routes))
  return (given) => {
    const route = plan.routing!.routeOf(requestWith(plan, given))
    return typeof route === 'object' ? route.number : route
  }
}

/** Whether the body is needed, whose model is not known. */
function asker(routes: readonly object[]): (given: Given) => boolean {
  const plan = planOf(routed(routes))
  return ({ values, ...given }) => plan.routing!.needsBody(requestWith(plan, { ...given, values: { 'llm:model': UNDECIDED, ...values } }))
}
