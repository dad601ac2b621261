import { expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { OPENAPI } from '../../support/admin/openapi.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { matches, type Schema } from '../../support/bundles/json-schema.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'

const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('bucket', ['header:x-k'], 10)] }))

const reason = 'a test'
const counters = { policy: 'p', rule: 'bucket', values: { 'header:x-k': 'alice' } }
const override = { ...counters, multiply: 3, until: '2h', reason }

/** What each operation needs to be understood. One text at a time is replaced by the empty one. */
const REQUESTS: Readonly<Record<string, { readonly query?: Record<string, string>; readonly body?: object }>> = {
  announceBundle: { body: { hash: 'a'.repeat(64), reason } },
  getBundleComparison: { query: { from: '1' } },
  retryBackend: { body: { reason } },
  explain: { body: { method: 'GET', uri: '/x' } },
  getCounters: { query: { policy: 'p', rule: 'bucket', 'header:x-k': 'alice' } },
  postCounters: { body: counters },
  resetCounters: { body: { ...counters, reason } },
  createOverride: { body: override },
  previewOverride: { body: override },
  previewOverrideEdit: { body: { until: '3h', reason } },
  editOverride: { body: { until: '3h', reason } },
  endOverride: { query: { reason } },
  createKey: { body: { labels: { team: 'a' }, reason } },
  acknowledgeKeys: { body: { reason } },
  changeKey: { body: { labels: { team: 'b' }, reason } },
  revokeKey: { query: { reason } },
  getTop: { query: { policy: 'p' } },
  postCallers: { body: { value: 'alice' } },
  openSession: { body: { token: ADMIN_TOKEN } },
}

interface Described {
  readonly operationId: string
  readonly parameters?: readonly { readonly in: string; readonly name: string; readonly schema: Schema }[]
  readonly requestBody?: { readonly content: { readonly 'application/json': { readonly schema: Schema } } }
}

const DESCRIBED = Object.entries(OPENAPI.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ method, path, ...(operation as unknown as Described) })),
)

test('an empty text is refused as malformed exactly where assets/openapi/admin.json forbids it', async () => {
  const keysFile = `${await scratchDirectory()}/keys.json`
  const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_KEYS_FILE: keysFile } })
  const ids: Readonly<Record<string, string>> = {
    bundles: '1',
    backends: 'b',
    overrides: (await askAdmin(edge.adminPort, 'POST', 'overrides', { body: override })).json.id,
    keys: (await askAdmin(edge.adminPort, 'POST', 'keys', { body: REQUESTS['createKey']!.body })).json.id,
  }
  const isMalformed = async (
    { method, path }: (typeof DESCRIBED)[number],
    { query = {}, body, headers = {} }: { query?: Record<string, string>; body?: object; headers?: Record<string, string> },
  ): Promise<boolean> => {
    const asked = `${path.replace('{id}', ids[path.split('/')[1]!]!)}?${new URLSearchParams(query)}`
    const response = await fetch(`http://127.0.0.1:${edge.adminPort}/admin/v1${asked}`, {
      method: method.toUpperCase(),
      headers: { Authorization: `Bearer ${ADMIN_TOKEN}`, ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    await response.body?.cancel()
    return response.status === 400
  }
  const wrong: string[] = []
  for (const operation of DESCRIBED) {
    const { operationId, parameters = [], requestBody } = operation
    const sent = parameters.filter(({ in: place, schema }) => place !== 'path' && schema['type'] !== 'object')
    const members = Object.entries((requestBody?.content['application/json'].schema['properties'] ?? {}) as Record<string, Schema>)
    if (sent.length + members.length === 0) continue
    const request = REQUESTS[operationId] ?? {}
    expect([operationId, await isMalformed(operation, request)]).toEqual([operationId, false])
    const tried = async (name: string, schema: Schema, emptied: typeof request): Promise<void> => {
      const isForbidden = !matches(schema, '')
      if ((await isMalformed(operation, emptied)) !== isForbidden)
        wrong.push(`${operationId}: ${name} is ${isForbidden ? 'forbidden, but taken' : 'allowed, but refused'}`)
    }
    for (const { in: place, name, schema } of sent) {
      if (place === 'query') await tried(name, schema, { ...request, query: { ...request.query, [name]: '' } })
      else await tried(name, schema, { ...request, headers: { [name]: '' } } as typeof request)
    }
    for (const [name, schema] of members) await tried(name, schema, { ...request, body: { ...request.body, [name]: '' } })
  }
  expect(wrong).toEqual([])
})
