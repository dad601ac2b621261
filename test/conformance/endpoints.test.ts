import { afterAll, beforeAll, expect, test } from 'vitest'
import { bundle } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import { type Answer, ask, type Fields } from '../support/service/http.ts'
import { SECRET, SECRET_ENV } from './debug-login.ts'

/** Specification: Endpoints; each answers its method, on one port, and no other method. */

let edge: Edge

beforeAll(async () => {
  edge = await Edge.start({ bundle: bundle(1), env: SECRET_ENV })
})

afterAll(() => edge.stop())

const ORIGINAL: Fields = [
  ['X-Original-Method', 'GET'],
  ['X-Original-URI', '/'],
]

/** The status of the right method, and of two wrong ones with what they say is right. */
async function statuses(method: string, path: string, fields: Fields = []): Promise<unknown[]> {
  const wrong = ['PUT', method === 'GET' ? 'POST' : 'GET']
  const answers: Answer[] = []
  for (const other of [method, ...wrong]) answers.push(await ask(edge.port, other, path, fields))
  return [answers[0]!.status, ...answers.slice(1).map(({ status, headers }) => [status, headers['allow']?.split(', ')[0]])]
}

test('[endpoint-1] POST /v1/decision evaluates a request', async () => {
  expect(await statuses('POST', '/v1/decision', ORIGINAL)).toEqual([200, [405, 'POST'], [405, 'POST']])
})

test('[endpoint-2] POST /v1/debug/session starts a debug session', async () => {
  expect(await statuses('POST', '/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])).toEqual([204, [405, 'POST'], [405, 'POST']])
})

test('[endpoint-3] POST /v1/debug/logout ends a debug session', async () => {
  expect(await statuses('POST', '/v1/debug/logout')).toEqual([204, [405, 'POST'], [405, 'POST']])
})

test('[endpoint-4] GET /livez is the liveness probe', async () => {
  expect(await statuses('GET', '/livez')).toEqual([200, [405, 'GET'], [405, 'GET']])
})

test('[endpoint-5] GET /readyz is the readiness probe', async () => {
  expect(await statuses('GET', '/readyz')).toEqual([200, [405, 'GET'], [405, 'GET']])
})

test('[endpoint-6] GET /metrics gives the metrics', async () => {
  expect(await statuses('GET', '/metrics')).toEqual([200, [405, 'GET'], [405, 'GET']])
})
