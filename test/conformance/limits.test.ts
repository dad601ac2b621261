import { afterAll, beforeAll, expect, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import { ask, type Fields } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { SECRET, SECRET_ENV } from './debug-login.ts'

/** Specification: Limits; those that hold outside of streams. */

let edge: Edge

beforeAll(async () => {
  const on = (path: string, config: object) =>
    policy(path, { selector: { pathPrefix: `/${path}` }, rules: [llmRule(path, [], { tokens_per_minute: 5000, ...config })] })
  edge = await Edge.start({
    clock: new ManualClock(),
    env: SECRET_ENV,
    bundle: bundle(1, on('bounded', { max_completion_tokens: 300 }), on('unbounded', {})),
  })
})

afterAll(() => edge.stop())

/** What a request with this body leaves of 5000 tokens. */
async function remainingAfter(uri: string, body: string): Promise<number> {
  const original: Fields = [
    ['X-Original-Method', 'POST'],
    ['X-Original-URI', uri],
    ['Content-Type', 'application/json'],
  ]
  return Number((await ask(edge.port, 'POST', '/v1/decision', original, body)).headers['ratelimit-remaining'])
}

test('[limit-1] the listening port is 8080 unless told otherwise', () => {
  const read = readConfig({}, {})
  expect(read.ok && read.config.port).toBe(8080)
})

test('[limit-2] all endpoints answer on that one port', async () => {
  const answers = await Promise.all([
    edge.decide(),
    edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]]),
    edge.post('/v1/debug/logout'),
    edge.get('/livez'),
    edge.get('/readyz'),
    edge.get('/metrics'),
  ])
  expect(answers.map(({ status }) => status)).toEqual([200, 204, 204, 200, 200, 200])
})

test('[limit-3] the reservation is max_completion_tokens where no body is read: it neither lowers nor raises it', async () => {
  expect(await remainingAfter('/bounded', '{"max_tokens":1,"messages":[{"content":"a long prompt, in vain"}]}')).toBe(4700)
  expect(await remainingAfter('/bounded', '{"max_tokens":4000}')).toBe(4400)
})

test('[limit-4] the reservation is 1000 tokens where nothing bounds the completion', async () => {
  expect(await remainingAfter('/unbounded', '{}')).toBe(4000)
})
