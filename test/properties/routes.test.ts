import fc from 'fast-check'
import { expect, test } from 'vitest'
import { mismatchOf } from '../../src/engine/explain/selector-mismatch.ts'
import { compileBundle } from '../../src/policy/compile.ts'
import { Matches } from '../../src/policy/index/routes.ts'
import { normalizeHost } from '../../src/policy/patterns.ts'
import type { PlanPolicy } from '../../src/policy/plan.ts'
import type { Policy } from '../../src/policy/schema/bundle.ts'
import { encodePathText, normalizePath } from '../../src/text/path.ts'
import { runs } from '../support/run/property-runs.ts'

// Few names, so that policies and requests meet often.
const segment = fc.constantFrom('api', 'v1', 'users', 'apix', 'a', 'é')
const path = fc
  .tuple(fc.array(segment, { maxLength: 3 }), fc.constantFrom('', '/', '//', '/.', '/x/..', '/%61'))
  .map(([segments, end]) => `/${segments.join('/')}${end}`)
const method = fc.constantFrom('GET', 'POST', 'PUT', 'get', 'PURGE')
const hostName = fc.constantFrom('example.com', 'a.example.com', 'b.a.example.com', 'Example.COM', 'example.com:8080', 'other.org', 'com')
const hostPattern = fc.oneof(
  hostName,
  hostName.map((name) => `*.${name}`),
)

const selector = fc
  .record(
    {
      path: fc.oneof(
        path.map((pathPrefix) => ({ pathPrefix })),
        path.map((pathExact) => ({ pathExact })),
      ),
      exceptPaths: fc.array(path, { minLength: 1, maxLength: 3 }),
      methods: fc.array(method, { minLength: 1, maxLength: 3 }),
      hosts: fc.array(hostPattern, { minLength: 1, maxLength: 3 }),
    },
    { requiredKeys: [] },
  )
  .map(({ path: paths, ...rest }) => ({ ...paths, ...rest }))

const spec = fc.record(
  { mode: fc.constantFrom('enforce' as const, 'shadow' as const), rules: fc.constant<Policy['spec']['rules']>([]), selector },
  { requiredKeys: ['mode', 'rules'] },
)
const policies = fc
  .oneof(fc.array(spec, { maxLength: 8 }), fc.array(spec, { minLength: 20, maxLength: 60 }))
  .map((specs): Policy[] => specs.map((each, i) => ({ id: `p${i}`, spec: each })))

const request = fc.record({ path, host: fc.oneof(fc.constant(''), hostName), method })

test('who is not found is told why by its selector, and who is found has no reason', () => {
  fc.assert(
    fc.property(policies, request, (list, { path, host, method }) => {
      const { routes, policies: planned } = compileBundle({ bundle_version: 1, policies: list })
      const found = new Matches<PlanPolicy>()
      const head = [normalizePath(encodePathText(path)), normalizeHost(host), method.toUpperCase()] as const
      routes.match(...head, found)
      const covered = planned.filter(({ selector }) => mismatchOf(selector, ...head) === undefined)
      expect(covered).toEqual(found.policies.slice(0, found.count))
    }),
  )
})

test('the index finds the same policies, in bundle order, as looking at every one of them', () => {
  fc.assert(
    fc.property(policies, fc.array(request, { minLength: 1, maxLength: 10 }), (list, requests) => {
      const { routes } = compileBundle({ bundle_version: 1, policies: list })
      const found = new Matches<PlanPolicy>()
      for (const { path, host, method } of requests) {
        const [normalPath, normalHost] = [normalizePath(encodePathText(path)), normalizeHost(host)]
        const upperMethod = method.toUpperCase()
        const reached = list.filter((policy) => coversPath(policy, normalPath) && coversMethod(policy, upperMethod))
        const needsHost = reached.some(({ spec: { mode, selector } }) => mode === 'enforce' && selector?.hosts)
        const isDecided = !(normalHost === '' && needsHost)

        expect(routes.match(normalPath, normalHost, upperMethod, found)).toBe(isDecided)
        if (!isDecided) continue
        const expected = reached.filter((policy) => coversHost(policy, normalHost)).map(({ id }) => id)
        expect(found.policies.slice(0, found.count).map((policy) => policy!.id)).toEqual(expected)
      }
    }),
    { numRuns: runs(20) },
  )
})

function coversPath({ spec: { selector = {} } }: Policy, requested: string): boolean {
  const normal = (text: string): string => normalizePath(encodePathText(text))
  const isBelow = (prefix: string): boolean => `${requested}/`.startsWith(`${normal(prefix).replace(/\/$/, '')}/`)
  if (selector.exceptPaths?.some(isBelow)) return false
  return selector.pathExact === undefined ? isBelow(selector.pathPrefix ?? '/') : requested === normal(selector.pathExact)
}

function coversMethod({ spec: { selector = {} } }: Policy, requested: string): boolean {
  return selector.methods === undefined || selector.methods.some((each) => each.toUpperCase() === requested)
}

function coversHost({ spec: { selector = {} } }: Policy, requested: string): boolean {
  if (selector.hosts === undefined) return true
  return selector.hosts.some((pattern) => {
    const name = pattern.toLowerCase().replace(/:\d+$/, '')
    return name.startsWith('*.') ? requested.endsWith(name.slice(1)) : requested === name
  })
}
