import fc from 'fast-check'
import { expect, test } from 'vitest'
import { mismatchOf } from '../../src/engine/explain/selector-mismatch.ts'
import { Patterns } from '../../src/policy/patterns.ts'
import { UNDECIDED, UNREADABLE } from '../../src/request/descriptors.ts'
import { REPEATED } from '../../src/request/view.ts'
import { planOf } from '../support/bundles/compiled-rule.ts'
import { requestWith, routed } from '../support/bundles/routed-bundles.ts'
import { runs } from '../support/run/property-runs.ts'

// Few names, so that routes and requests meet often.
const KEYS = ['header:a', 'header:b', 'llm:model']
const value = fc.constantFrom('x', 'xy', 'xyz', 'y', 'z')
const pattern = fc.oneof(value, fc.constantFrom('*', 'x*', 'xy*', 'y*'))
const match = fc.dictionary(fc.constantFrom(...KEYS), fc.array(pattern, { minLength: 1, maxLength: 3 }), { minKeys: 1 })
const path = fc.constantFrom('/', '/v1', '/v1/x', '/v2')
const selector = fc.record(
  {
    pathPrefix: path,
    exceptPaths: fc.array(fc.constantFrom('/v1/x', '/v2'), { minLength: 1, maxLength: 1 }),
    methods: fc.constantFrom<string[]>(['GET'], ['post', 'GET']),
    hosts: fc.constantFrom<string[]>(['a.example'], ['*.example']),
  },
  { requiredKeys: [] },
)
const route = fc
  .record({ selector, match, model: fc.boolean() }, { requiredKeys: ['model'] })
  .map(({ model, ...rest }) => ({ ...rest, backends: [{ name: 'a', ...(model && { model: 'm' }) }] }))
const given = fc.oneof({ weight: 4, arbitrary: value }, fc.constantFrom(undefined, REPEATED, UNDECIDED, UNREADABLE))
const request = fc.record({
  path,
  method: fc.constantFrom('GET', 'POST'),
  host: fc.constantFrom('', 'a.example', 'b.example'),
  values: fc.record({ 'header:a': given, 'header:b': given, 'llm:model': given }),
})

type Route = typeof route extends fc.Arbitrary<infer R> ? R : never
type Request = typeof request extends fc.Arbitrary<infer R> ? R : never

test('the route of a request is the first that covers it, as if each was looked at', () => {
  fc.assert(
    fc.property(fc.array(route, { minLength: 1, maxLength: 12 }), fc.array(request, { minLength: 1, maxLength: 8 }), (routes, requests) => {
      const plan = planOf(routed(routes))
      for (const each of requests) {
        const view = requestWith(plan, each)
        const { number, verdict } = firstOf(routes, each)
        const found = plan.routing!.routeOf(view)
        expect(typeof found === 'object' ? found.number : found).toBe(verdict === 'sure' ? number : 'repeated_descriptor')
        const isReplaced = number !== undefined && routes[number]!.backends[0]!.model !== undefined
        expect(plan.routing!.needsBody(view)).toBe(verdict === 'open' || (verdict === 'sure' && isReplaced))
      }
    }),
    { numRuns: runs(2) },
  )
})

interface First {
  readonly number: number | undefined
  readonly verdict: 'sure' | 'open' | 'ambiguous'
}

function firstOf(routes: readonly Route[], request: Request): First {
  for (const [number, { selector = {}, match = {} }] of routes.entries()) {
    if (mismatchOf(selector, request.path, request.host, request.method) !== undefined) continue
    const verdicts = Object.entries(match).map(([key, patterns]) => {
      const value = request.values[key as keyof Request['values']]
      if (value === REPEATED) return 'ambiguous'
      if (value === UNDECIDED) return 'open'
      return typeof value === 'string' && new Patterns(patterns).cover(value) ? 'sure' : 'no'
    })
    if (verdicts.includes('no')) continue
    return { number, verdict: verdicts.includes('ambiguous') ? 'ambiguous' : verdicts.includes('open') ? 'open' : 'sure' }
  }
  return { number: undefined, verdict: 'sure' }
}
