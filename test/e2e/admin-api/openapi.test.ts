import { readFileSync } from 'node:fs'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { AdminApi } from '../../../src/admin/api/admin-api.ts'
import { API_ERRORS } from '../../../src/admin/api/api-error.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { OPENAPI } from '../../support/admin/openapi.ts'
import { bucketRule, bundle, concurrencyRule, llmRule, policy, windowRule } from '../../support/bundles/bundles.ts'
import { running } from '../../support/service/running.ts'

const BUNDLE = bundle(
  1,
  policy('p', {
    rules: [
      bucketRule('bucket', ['header:x-k'], 10),
      windowRule('window', [], { limit: 5, period: '1d' }),
      llmRule('llm', ['bearer'], { tokens_per_minute: 1000, tokens_per_day: 100_000 }),
      concurrencyRule('flight', ['header:x-k'], 3),
    ],
  }),
)

describe('assets/openapi/admin.json', () => {
  test('is served, and has every path and method that the API has, and no others', async () => {
    const handle = vi.spyOn(AdminApi.prototype, 'handle')
    onTestFinished(() => handle.mockRestore())
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const { json } = await askAdmin(edge.adminPort, 'GET', 'openapi.json')
    expect(json).toEqual(JSON.parse(readFileSync('assets/openapi/admin.json', 'utf8')))
    const { routes } = handle.mock.contexts[0] as AdminApi
    const served = routes.map(({ method, path, tail = '' }) => `${method} /${path.replace(/\/$/, '/{id}')}${tail}`)
    const described = Object.entries(OPENAPI.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    expect(served.sort()).toEqual(described.sort())
  })

  test('has every error code with its status', () => {
    const described = Object.values(OPENAPI.paths).flatMap((methods) =>
      Object.values(methods).flatMap(({ responses }) => codesIn(responses)),
    )
    const known = Object.entries(API_ERRORS).map(([code, status]) => `${status} ${code}`)
    // A response that no operation lists may be of any path: it is in the components.
    const { MethodNotAllowed } = OPENAPI.components.responses
    expect([...new Set([...described, ...codesIn({ 405: MethodNotAllowed! })])].sort()).toEqual(known.sort())
    const { code } = (OPENAPI.components.schemas['Error'] as unknown as ErrorSchema).properties.error.properties
    expect([...code.enum].sort()).toEqual(Object.keys(API_ERRORS).sort())
  })

  test('describes what each endpoint returns', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await edge.decide({ fields: [['X-K', 'alice']] })
    const until = '2h'
    const reason = 'a test'
    const change = { policy: 'p', rule: 'bucket', values: { 'header:x-k': 'alice' }, until, reason }
    // Each response is compared by askAdmin.
    for (const [status, method, path, body] of [
      [200, 'GET', 'status'],
      [200, 'GET', 'bundle'],
      [200, 'GET', 'bundles'],
      [200, 'GET', 'bundles/1'],
      [200, 'GET', 'bundles/1?credentials=clear'],
      [404, 'GET', 'bundles/9'],
      [200, 'GET', 'bundles/1/changes?from=1'],
      [404, 'GET', 'bundles/1/changes'],
      [200, 'GET', 'policies'],
      [200, 'GET', 'policies?limit=1&after=p'],
      [200, 'GET', 'activity?range=24h'],
      [404, 'GET', 'policies?after=q'],
      [200, 'POST', 'explain', { method: 'GET', uri: '/x', host: 'h', headers: { 'x-k': 'alice', authorization: ['Bearer b'] } }],
      [200, 'POST', 'explain', { method: 'GET', uri: '/x', headers: { 'x-k': ['a', 'b'] } }],
      [400, 'POST', 'explain', {}],
      [200, 'GET', 'counters?policy=p&rule=bucket&header:x-k=alice'],
      [200, 'GET', 'counters?policy=p&rule=window'],
      [200, 'GET', 'counters?policy=p&rule=flight&header:x-k=alice'],
      [400, 'GET', 'counters?policy=p&rule=bucket'],
      [404, 'GET', 'counters?policy=p&rule=nothing'],
      [200, 'POST', 'counters', { policy: 'p', rule: 'llm', values: { bearer: 'b' } }],
      [200, 'POST', 'counters/reset', { policy: 'p', rule: 'bucket', values: { 'header:x-k': 'alice' }, reason }],
      [400, 'POST', 'counters/reset', { policy: 'p', rule: 'bucket', values: { 'header:x-k': 'alice' } }],
      [200, 'GET', 'top'],
      [200, 'GET', 'top?policy=p&rule=bucket&limit=3'],
      [404, 'GET', 'top?policy=q'],
      [200, 'GET', 'callers'],
      [400, 'GET', 'callers?value=alice'],
      [200, 'POST', 'callers', { values: { 'header:x-k': 'alice' } }],
      [200, 'POST', 'callers', { value: 'alice', policy: 'p' }],
      [400, 'POST', 'callers', {}],
      [404, 'POST', 'callers', { value: 'alice', policy: 'q' }],
      [400, 'GET', 'events?event=nothing'],
      [200, 'GET', 'events/recent'],
      [200, 'GET', 'changes'],
      [201, 'POST', 'overrides', { ...change, multiply: 3 }],
      [409, 'POST', 'overrides', { ...change, block: true }],
      [201, 'POST', 'overrides', { ...change, rule: 'window', values: undefined, all: true, set: { limit: 9 } }],
      [201, 'POST', 'overrides', { ...change, rule: 'llm', values: { bearer: 'b' }, unlimited: true }],
      [201, 'POST', 'overrides', { shadow_all: true, until, reason }],
      [200, 'GET', 'overrides'],
      [200, 'GET', 'overrides/history'],
      [200, 'POST', 'overrides/preview', { ...change, rule: 'flight', block: true }],
      [409, 'POST', 'overrides/preview', { ...change, block: true }],
      [404, 'POST', 'overrides/preview/nothing', { until, reason }],
      [404, 'PATCH', 'overrides/nothing', { until, reason }],
      [200, 'GET', 'changes?since=1h&limit=3'],
      [200, 'GET', 'events/recent?since=1h&event=override&limit=3'],
      [200, 'GET', 'status'],
      [200, 'GET', 'counters?policy=p&rule=bucket&header:x-k=alice'],
      [200, 'POST', 'explain', { method: 'GET', uri: '/x', headers: { 'x-k': 'alice' } }],
      [404, 'DELETE', 'overrides/nothing?reason=x'],
    ] as const) {
      const response = await askAdmin(edge.adminPort, method, path, body === undefined ? {} : { body })
      expect([method, path, response.status]).toEqual([method, path, status])
    }
  })
})

interface ErrorSchema {
  readonly properties: { readonly error: { readonly properties: { readonly code: { readonly enum: readonly string[] } } } }
}

/** `401 unauthorized`, for each code of each response. */
function codesIn(responses: (typeof OPENAPI)['components']['responses']): string[] {
  return Object.entries(responses).flatMap(([status, { content }]) => {
    const [, narrowed] = (content?.['application/json']?.schema as { allOf?: [unknown, ErrorSchema] } | undefined)?.allOf ?? []
    return narrowed === undefined ? [] : narrowed.properties.error.properties.code.enum.map((code) => `${status} ${code}`)
  })
}
