import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { SECRET_ENV } from './debug-login.ts'

/** Specification: Errors; each row as its caller meets it, and the known reason codes. */

let edge: Edge
let bare: Edge

beforeAll(async () => {
  const plain = (path: string) => policy(path, { selector: { pathPrefix: `/${path}` }, rules: [bucketRule('per-path', [], 1, 0.1)] })
  edge = await Edge.start({
    clock: new ManualClock(),
    env: SECRET_ENV,
    bundle: bundle(
      1,
      plain('limited'),
      plain('reasons'),
      policy('chat', {
        selector: { pathPrefix: '/chat' },
        rules: [llmRule('budget', [], { tokens_per_minute: 100, max_completion_tokens: 60 })],
      }),
    ),
  })
  bare = await Edge.start()
})

afterAll(() => Promise.all([edge.stop(), bare.stop()]))

/** The status and those headers of the second request, for which there is no room. */
async function second(uri: string): Promise<[number, Record<string, string>]> {
  expect((await edge.decide({ uri })).status).toBe(200)
  const { status, headers } = await edge.decide({ uri })
  const told = Object.entries(headers).filter(([name]) => /^(retry-after|x-edge-|ratelimit)/.test(name))
  return [status, Object.fromEntries(told)]
}

test('[error-1] 429, a limit is exceeded: reason code, Retry-After and RateLimit headers', async () => {
  const told = {
    'retry-after': '10',
    'x-edge-reason': 'token_bucket_exceeded',
    'ratelimit-limit': '1',
    'ratelimit-remaining': '0',
    'ratelimit-reset': '10',
    ratelimit: '"limited";r=0;t=10',
  }
  expect(await second('/limited')).toEqual([429, told])
})

test('[error-2] 429, the minute budget cannot cover the reservation: reason tpm_exceeded', async () => {
  const told = {
    'retry-after': '12', // 20 tokens at 100 a minute
    'x-edge-reason': 'tpm_exceeded',
    'ratelimit-limit': '100',
    'ratelimit-remaining': '0',
    'ratelimit-reset': '12',
    ratelimit: '"chat";r=0;t=12',
  }
  expect(await second('/chat')).toEqual([429, told])
})

test('[error-3] 503, no bundle on /v1/decision: X-Edge-Reason no_bundle_loaded, before anything else is looked at', async () => {
  const complete = await bare.decide()
  const incomplete = await bare.post('/v1/decision')
  for (const { status, headers } of [complete, incomplete]) expect([status, headers['x-edge-reason']]).toEqual([503, 'no_bundle_loaded'])
})

test('[error-4] 503, no bundle on /readyz: body reason no_policy_loaded', async () => {
  const { status, body } = await bare.get('/readyz')
  expect([status, JSON.parse(body).reason]).toEqual([503, 'no_policy_loaded'])
})

test('[error-5] 404, the debug endpoints while the debug secret is unset', async () => {
  const answers = await Promise.all(['/v1/debug/session', '/v1/debug/logout'].map((path) => bare.post(path)))
  expect(answers.map(({ status }) => status)).toEqual([404, 404])
})

test('[error-6] 403, debug login with a wrong secret', async () => {
  expect((await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', 'wrong']])).status).toBe(403)
})

test('[error-7] the reason label is all_rules_passed on allow, and the reason code on reject', async () => {
  const decisions = (action: string, reason: string) =>
    edge.metric(`edge_decisions_total{action="${action}",reason="${reason}",policy="reasons",route="/reasons"}`)
  await second('/reasons')
  expect(await decisions('allow', 'all_rules_passed')).toBe(1)
  expect(await decisions('reject', 'token_bucket_exceeded')).toBe(1)
})
