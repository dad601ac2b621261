import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketRule, bundle, jwt, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { SECRET_ENV } from './debug-login.ts'

/** Specification: Authentication 1 and 8; who need not prove anything. The debug session has files of its own. */

let edge: Edge

beforeAll(async () => {
  edge = await Edge.start({
    clock: new ManualClock(),
    env: SECRET_ENV,
    bundle: bundle(1, policy('p', { selector: { pathPrefix: '/users' }, rules: [bucketRule('per-user', ['jwt:sub'], 1)] })),
  })
})

afterAll(() => edge.stop())

test('[auth-1] /v1/decision, /livez, /readyz and /metrics need no authentication, also where a debug secret is set', async () => {
  const answers = await Promise.all([edge.decide(), edge.get('/livez'), edge.get('/readyz'), edge.get('/metrics')])
  expect(answers.map(({ status, headers }) => [status, headers['www-authenticate']])).toEqual(Array(4).fill([200, undefined]))
})

test('[auth-2] the bearer JWT is not authenticated: unsigned, forged and expired ones name their user all the same', async () => {
  const payload = { sub: 'ann', exp: 1 }
  const [header, body] = jwt(payload).split('.')
  const tokens = [jwt(payload), `${header}.${body}.Zm9yZ2Vk`, `${header}.${body}.`]
  const statuses: number[] = []
  for (const token of tokens) {
    statuses.push((await edge.decide({ uri: '/users', fields: [['Authorization', `Bearer ${token}`]] })).status)
  }
  expect(statuses).toEqual([200, 429, 429])
})

test('[auth-3] an Authorization that is no JWT is no reason to refuse a request: it only supplies no descriptor', async () => {
  const missing = 'edge_descriptor_missing_total{key="jwt:sub"}'
  const before = await edge.metric(missing)
  const statuses: number[] = []
  for (const text of ['Bearer not-a-jwt', 'Basic YW5uOnB3', 'Bearer a.b.c']) {
    statuses.push((await edge.decide({ uri: '/users', fields: [['Authorization', text]] })).status)
  }
  expect(statuses).toEqual([200, 200, 200])
  expect((await edge.metric(missing)) - before).toBe(3)
})
