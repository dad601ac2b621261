import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'

test.each(['X_Api_Key', 'x-api_key', 'X.Api.Key', 'X_API-KEY'])('a limit on X-Api-Key counts a caller that spells it %s', async (name) => {
  const [edge, backend] = await limited('header:x-api-key')
  expect(await statuses(edge, [[[name, 'a']], [['X-Api-Key', 'a']], [[name, 'a']], [[name, 'b']]])).toEqual([200, 429, 429, 200])
  // Whatever reads it behind us sees what came.
  expect(backend.seen[0]!.headers[name.toLowerCase()]).toBe('a')
})

test('two spellings of it are one field that comes twice: 400, and the backend is not asked', async () => {
  const [edge, backend] = await limited('header:x-api-key')
  const key = ['X-Api-Key', 'a'] as const
  const answer = await ask(edge.port, 'GET', '/', [key, ['X_Api_Key', 'b']])
  expect([answer.status, answer.headers['x-edge-reason']]).toEqual([400, 'repeated_descriptor'])
  const others: Fields = [
    ['X_Api_Key', 'b'],
    ['X.Api.Key', 'c'],
  ]
  expect((await ask(edge.port, 'GET', '/', others)).status).toBe(400)
  expect(backend.seen).toHaveLength(0)
  expect(await statuses(edge, [[key]])).toEqual([200])
})

test('a limit that is written with an underscore counts the other spelling as well', async () => {
  const [edge] = await limited('header:x_api_key')
  expect(await statuses(edge, [[['X-Api-Key', 'a']], [['X_Api_Key', 'a']]])).toEqual([200, 429])
})

test('names that only look alike are other fields', async () => {
  const [edge] = await limited('header:x-api-key')
  expect(await statuses(edge, [[['XXApi-Key', 'a']], [['XXApi-Key', 'a']], [['X--Api-Key', 'a']], [['X-Api-Keys', 'a']]])).toEqual([
    200, 200, 200, 200,
  ])
})

test("a trusted proxy's X-Forwarded-For is not changed by another spelling beside it", async () => {
  const [edge] = await limited('ip:address')
  const chain = ['X-Forwarded-For', '192.0.2.1'] as const
  expect(await statuses(edge, [[chain], [chain, ['X_Forwarded_For', '192.0.2.9']], [['X_Forwarded_For', '192.0.2.8'], chain]])).toEqual([
    200, 429, 429,
  ])
})

async function limited(key: string): Promise<[Edge, HttpBackend]> {
  const backend = await HttpBackend.start()
  const rules = [bucketRule('r', [key], 1)]
  return [await proxying(backend, { clock: new ManualClock(), bundle: bundle(1, policy('p', { rules })) }), backend]
}

async function statuses(edge: Edge, requests: readonly Fields[]): Promise<number[]> {
  const found: number[] = []
  for (const fields of requests) found.push((await ask(edge.port, 'GET', '/', fields)).status)
  return found
}
