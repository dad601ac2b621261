import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bucketRule, budgetRule, bundle, jwt, llmRule, matching, policy } from '../../test/support/bundles/bundles.ts'
import { planOf } from '../../test/support/bundles/compiled-rule.ts'
import { runs } from '../../test/support/run/property-runs.ts'
import type { Plan } from '../policy/plan.ts'
import { TrustedProxies } from '../request/client-address.ts'
import { Descriptors, type DescriptorValue, defaultIdentification } from '../request/descriptors.ts'
import { PlainRequestView, type RequestView } from '../request/view.ts'
import { CallerDigester } from '../store/caller-digester.ts'
import { DecisionLines } from './decision-lines.ts'

const AT_MS = Date.parse('2026-01-02T03:04:05.678Z')
const digest = new CallerDigester([1, 2])
const callerDigest = (values: readonly string[]): string => digest.of(values)

interface Line {
  readonly time: string
  readonly method: string
  readonly uri: string
  readonly host?: string
  readonly client?: string
  readonly headers?: Record<string, string | string[]>
  readonly context?: Record<string, string>
}

function lineOf(plan: Plan, view: RequestView, body?: Parameters<DecisionLines['lineOf']>[2]): Line {
  const lines = new DecisionLines({ trustedProxies: new TrustedProxies(), callerDigest })
  const line = lines.lineOf(plan, view, body, AT_MS)
  expect(line.endsWith('}\n')).toBe(true)
  expect(line.indexOf('\n')).toBe(line.length - 1)
  return JSON.parse(line) as Line
}

function planFor(...keys: string[]): Plan {
  return planOf(bundle(1, policy('p', { rules: keys.map((key, i) => bucketRule(`r${i}`, [key], 1)) })))
}

function request(uri: string, headers: Record<string, string | string[]> = {}, host = 'shop.example'): PlainRequestView {
  return new PlainRequestView({ method: 'GET', uri, host, headers })
}

const ALL: Record<string, string | string[]> = {
  'x-api-key': 'alice',
  'x-secret': 'never-read',
  authorization: `Bearer ${jwt({ sub: 'bob', email: 'bob@shop.example' })}`,
  cookie: 'sid=abc; theme=dark',
  'x-forwarded-for': '203.0.113.7',
  'x-cost': '3',
}

describe('a line has what rules read', () => {
  test('and no more than time, method and path where they read nothing', () => {
    expect(lineOf(planFor(), request('/a/b?token=t#f', ALL))).toEqual({ time: '2026-01-02T03:04:05.678Z', method: 'GET', uri: '/a/b' })
  })

  test('of fields and parameters, only those that are named', () => {
    const plan = planFor('header:x-api-key', 'query:user')
    const { uri, headers } = lineOf(plan, request('/a?x=1&user=a%20b&token=t', ALL))
    expect(uri).toBe('/a?user=a%20b')
    expect(headers).toEqual({ 'x-api-key': 'alice' })
  })

  test('also in a match, in a cost, and in a policy that does not cover the request', () => {
    const cost = budgetRule('money', [], { budget: 1, period: '1d', cost: { header: 'x-cost', default: 1 } })
    const plan = planOf(
      bundle(
        1,
        policy('p', { rules: [cost, matching({ 'header:x-tier': 'gold' }, bucketRule('r', [], 1))] }),
        policy('q', { selector: { pathPrefix: '/elsewhere' }, rules: [bucketRule('r', ['header:x-api-key'], 1)] }),
      ),
    )
    expect(lineOf(plan, request('/', { ...ALL, 'x-tier': 'gold' })).headers).toEqual({
      'x-api-key': 'alice',
      'x-tier': 'gold',
      'x-cost': '3',
    })
  })

  test('of credentials, digests, which are the same for the same caller', () => {
    const plan = planFor('bearer', 'cookie:sid')
    const { headers } = lineOf(plan, request('/', { authorization: 'bearer sk-1', cookie: 'sid=s-1; theme=dark' }))
    expect(headers).toEqual({ authorization: `Bearer ${callerDigest(['sk-1'])}`, cookie: `sid=${callerDigest(['s-1'])}` })
    expect(lineOf(plan, request('/', { authorization: 'Bearer sk-1', cookie: 'sid="s-1"' })).headers).toEqual(headers)
  })

  test('of the whole Authorization field, its scheme and a digest', () => {
    const authorization = 'Basic YWxpY2U6c2VjcmV0'
    const { headers } = lineOf(planFor('header:authorization'), request('/', { authorization }))
    expect(headers).toEqual({ authorization: `Basic ${callerDigest([authorization])}` })
  })

  test('of a whole Cookie field, a digest', () => {
    const { headers } = lineOf(planFor('header:cookie'), request('/', ALL))
    expect(headers).toEqual({ cookie: callerDigest(['sid=abc; theme=dark']) })
  })

  test('of a field for a proxy, a digest', () => {
    const { headers } = lineOf(planFor('header:proxy-authorization'), request('/', { 'proxy-authorization': 'Basic x' }))
    expect(headers).toEqual({ 'proxy-authorization': callerDigest(['Basic x']) })
  })

  test('of a credential that a cost reads, a digest', () => {
    const cost = budgetRule('money', [], { budget: 1, period: '1d', cost: { header: 'Authorization', default: 1 } })
    const plan = planOf(bundle(1, policy('p', { rules: [cost] })))
    expect(lineOf(plan, request('/', { authorization: 'Bearer sk-1' })).headers).toEqual({
      authorization: `Bearer ${callerDigest(['sk-1'])}`,
    })
  })

  test('of a token, the claims that are named, in a token without a signature', () => {
    const claims = (plan: Plan): unknown => {
      const { authorization } = lineOf(plan, request('/', ALL)).headers!
      const [scheme, token] = String(authorization).split(' ')
      expect(scheme).toBe('Bearer')
      return [token!.split('.')[0], JSON.parse(Buffer.from(token!.split('.')[1]!, 'base64url').toString())]
    }
    expect(claims(planFor('jwt:sub'))).toEqual(['claims', { sub: 'bob' }])
    expect(claims(planFor('jwt:sub', 'bearer'))).toEqual([callerDigest([String(ALL['authorization']).slice(7)]), { sub: 'bob' }])
    expect(lineOf(planFor('jwt:missing'), request('/', ALL)).headers).toBeUndefined()
  })

  test('of the address, the network where that is all that is read', () => {
    const v6 = { 'x-forwarded-for': '2001:db8:1:2:3:4:5:6, 10.0.0.1' }
    expect(lineOf(planFor('ip:address'), request('/', v6)).client).toBe('2001:db8:1:2::')
    expect(lineOf(planFor('ip:country', 'ip:address'), request('/', v6)).client).toBe('2001:db8:1:2:3:4:5:6')
    expect(lineOf(planFor('ip:address'), request('/', ALL)).client).toBe('203.0.113.7')
    expect(lineOf(planFor('ip:address'), request('/')).client).toBeUndefined()
  })

  test('the host where a policy is bound to hosts', () => {
    const plan = planOf(bundle(1, policy('p', { selector: { hosts: ['other.example'] }, rules: [] })))
    expect(lineOf(plan, request('/')).host).toBe('shop.example')
  })

  test('what the gateway sends along', () => {
    const view = Object.assign(request('/'), { context: (name: string) => (name === 'route' ? 'r"1' : undefined) })
    expect(lineOf(planFor('context:route', 'context:other'), view).context).toEqual({ route: 'r"1' })
  })

  test('what a body costs and its model, as the fields in which gateways state it', () => {
    const plan = planOf(bundle(1, policy('p', { rules: [llmRule('tokens', [], { tokens_per_minute: 1000 })] })))
    const body = { promptTokens: 12, requestedTokens: 300, choices: 1, isStream: false, model: 'gpt-4o' }
    expect(lineOf(plan, request('/'), body).headers).toEqual({
      'x-edge-prompt-tokens': '12',
      'x-edge-max-tokens': '300',
      'x-edge-model': 'gpt-4o',
    })
    expect(lineOf(planFor(), request('/'), body).headers).toBeUndefined()
  })

  test('the target without a host, which may have a password before it, and with bytes as escapes', () => {
    const view = { ...request('/'), header: () => undefined, method: 'GET', host: '', uri: 'http://user:password@host/a\xc3\xa9?x=1' }
    expect(lineOf(planFor(), view).uri).toBe('/a%C3%A9')
  })
})

test('of a bundle that reads very many fields, a line has those of the policies that cover its request', () => {
  const policies = Array.from({ length: 100 }, (_, i) =>
    policy(`p${i}`, { selector: { pathPrefix: `/p${i}` }, rules: [bucketRule('r', [`header:x-${i}`], 1)] }),
  )
  const headers = Object.fromEntries(policies.map((_, i) => [`x-${i}`, 'v']))
  expect(lineOf(planOf(bundle(1, ...policies)), request('/p7/x', headers)).headers).toEqual({ 'x-7': 'v' })
})

const KEYS = [
  'bearer',
  'header:authorization',
  'header:x-k',
  'cookie:sid',
  'jwt:sub',
  'jwt:org.id',
  'query:q',
  'query:ü',
  'path:1',
  'path:2',
  'ip:address',
]
const SECRET_KEYS = new Set(['bearer', 'header:authorization', 'cookie:sid'])

test('a request that is read from its line has the same descriptors, credentials apart, which differ where they differed', () => {
  const plan = planFor(...KEYS)
  const text = fc.string({
    unit: fc.constantFrom('a', 'b', ' ', '%', '2', '5', '=', '&', '"', ';', ',', '.', '\xe9', '\\', '<'),
    maxLength: 8,
  })
  const target = fc
    .tuple(fc.array(text, { maxLength: 3 }), fc.array(fc.tuple(fc.constantFrom('q', '%71', '%C3%BC', 'z'), text), { maxLength: 4 }))
    .map(([path, query]) => `/${path.join('/').replace(/[?#]/g, '')}?${query.map((pair) => pair.join('=')).join('&')}`)
  const token = fc.oneof(
    text,
    fc.record({ sub: fc.oneof(text, fc.integer(), fc.bigInt().map(String)), 'org.id': text }, { requiredKeys: [] }).map(jwt),
    fc.record({ org: fc.record({ id: text }) }).map(jwt),
  )
  const lines = (line: fc.Arbitrary<string>): fc.Arbitrary<string[]> => fc.array(line, { maxLength: 2 })
  const fields = fc.record({
    authorization: lines(
      fc.tuple(fc.constantFrom('Bearer ', 'bearer  ', 'Basic ', ''), token).map(([scheme, value]) => (scheme + value).trim()),
    ),
    'x-k': lines(text),
    cookie: lines(
      fc
        .array(fc.tuple(fc.constantFrom('sid', 'other', 's%69d'), text), { maxLength: 3 })
        .map((pairs) => pairs.map((pair) => pair.join('=')).join('; ')),
    ),
    'x-forwarded-for': lines(fc.constantFrom('203.0.113.7', '2001:db8::1, 10.1.1.1', 'nonsense', '10.0.0.1', '')),
  })
  const requests = fc.tuple(target, fields).map(([uri, headers]) => request(uri, headers))
  fc.assert(
    fc.property(requests, requests, (one, other) => {
      const [before, after] = [one, other].map((view) => {
        const { uri, client, headers = {} } = lineOf(plan, view)
        const again = request(uri, client === undefined ? headers : { ...headers, 'x-forwarded-for': client })
        return [valuesOf(plan, view), valuesOf(plan, again)] as const
      }) as [readonly [Values, Values], readonly [Values, Values]]
      for (const [values, again] of [before, after]) expect(withoutSecrets(again)).toEqual(withoutSecrets(values))
      for (const key of SECRET_KEYS) {
        if (key === 'header:authorization') continue // spelled differently, it is the same token
        expect(before[1].get(key) === after[1].get(key), key).toBe(before[0].get(key) === after[0].get(key))
      }
    }),
    { numRuns: runs(60) },
  )
})

type Values = ReadonlyMap<string, DescriptorValue>

function valuesOf(plan: Plan, view: RequestView): Values {
  const path = view.uri.replace(/\?.*/s, '')
  const descriptors = new Descriptors(defaultIdentification(), { path, model: undefined })
  descriptors.begin(view, plan.keys)
  return new Map(plan.keys.map(({ text }, i) => [text, descriptors.get(i)]))
}

/** Of secrets, only whether there is one. */
function withoutSecrets(values: Values): Record<string, unknown> {
  return Object.fromEntries(
    Array.from(values, ([key, value]) => [key, SECRET_KEYS.has(key) && typeof value === 'string' ? 'a secret' : value]),
  )
}
