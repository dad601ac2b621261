import { afterAll, beforeAll, expect, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { bucketRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { debugFacts, logIn, SECRET_ENV } from './debug-login.ts'

/** Specification: What the service does. */

let edge: Edge

beforeAll(async () => {
  const perCaller = ['header:x-caller']
  edge = await Edge.start({
    clock: new ManualClock(),
    env: SECRET_ENV,
    bundle: bundle(
      1,
      policy('calls', { mode: 'enforce', selector: { pathPrefix: '/calls' }, rules: [bucketRule('per-caller', perCaller, 2)] }),
      policy('trial', { mode: 'shadow', selector: { pathPrefix: '/trial' }, rules: [bucketRule('tried-out', perCaller, 1)] }),
      policy('shop', {
        selector: { pathPrefix: '/orders', hosts: ['shop.example'], methods: ['DELETE'] },
        rules: [bucketRule('deletes', [], 5)],
      }),
      policy('the-call-itself', {
        selector: { pathPrefix: '/v1/decision' },
        rules: [bucketRule('own-path', [], 1)],
      }),
      policy('the-host-itself', {
        selector: { pathPrefix: '/orders', hosts: ['127.0.0.1'] },
        rules: [bucketRule('own-host', [], 1)],
      }),
      policy('the-method-itself', { selector: { pathPrefix: '/orders', methods: ['POST'] }, rules: [bucketRule('own-method', [], 1)] }),
      policy('chat', {
        selector: { pathPrefix: '/chat' },
        rules: [llmRule('budget', perCaller, { tokens_per_minute: 1000, max_completion_tokens: 400 })],
      }),
    ),
  })
})

afterAll(() => edge.stop())

test('[service-1] a request within the limits of the active bundle is answered 200, one beyond them 429', async () => {
  expect(await edge.decideTimes(3, { uri: '/calls', fields: [['X-Caller', 'ann']] })).toEqual([200, 200, 429])
})

test('[service-2] unless told otherwise, the service runs in mode decision_service', () => {
  const read = readConfig({}, {})
  expect(read.ok && read.config.mode).toBe('decision_service')
})

test('[service-3] host, method and URI are those of the X-Original headers, not those of the call', async () => {
  const original = { method: 'DELETE', uri: '/orders/7', host: 'shop.example' }
  const limitFor = async (changes: Partial<typeof original>) =>
    (await edge.decide({ ...original, ...changes })).headers['ratelimit'] ?? 'no limit'
  expect(await limitFor({})).toBe('"shop";r=4;t=1')
  expect(await limitFor({ host: 'other.example' })).toBe('no limit')
  expect(await limitFor({ method: 'GET' })).toBe('no limit')
  expect(await limitFor({ uri: '/baskets/7' })).toBe('no limit')
})

test('[service-4] a policy in mode enforce rejects what exceeds it', async () => {
  const asBen = { uri: '/calls', fields: [['X-Caller', 'ben']] as const }
  expect(await edge.decideTimes(2, asBen)).toEqual([200, 200])
  const beyond = await edge.decide(asBen)
  expect([beyond.status, beyond.headers['x-edge-reason']]).toEqual([429, 'token_bucket_exceeded'])
})

test('[service-5] a policy in mode shadow lets everything pass and records what it would have rejected', async () => {
  const series = 'edge_would_reject_total{policy="trial",rule="tried-out",reason="token_bucket_exceeded"}'
  expect(await edge.metric(series)).toBe(0)
  expect(await edge.decideTimes(3, { uri: '/trial', fields: [['X-Caller', 'cora']] })).toEqual([200, 200, 200])
  expect(await edge.metric(series)).toBe(2)
})

test('[service-6] limits are keyed by descriptors of the request: one caller cannot use up what another has', async () => {
  const asDan = { uri: '/calls', fields: [['X-Caller', 'dan']] as const }
  expect(await edge.decideTimes(3, asDan)).toEqual([200, 200, 429])
  expect(await edge.decideTimes(3, { uri: '/calls', fields: [['X-Caller', 'eve']] })).toEqual([200, 200, 429])
})

test('[service-7] a token budget reserves its tokens when the request comes', async () => {
  const asFay = { uri: '/chat', fields: [['X-Caller', 'fay']] as const }
  const remaining = [await edge.decide(asFay), await edge.decide(asFay)].map((answer) => answer.headers['ratelimit-remaining'])
  expect(remaining).toEqual(['600', '200'])
})

test('[service-8] a debug session adds diagnostic headers for its caller and for nobody else', async () => {
  const { pair } = await logIn(edge)
  const [operator, anybody] = await Promise.all([
    edge.decide({
      uri: '/calls',
      fields: [
        ['X-Caller', 'gus'],
        ['Cookie', pair],
      ],
    }),
    edge.decide({ uri: '/calls', fields: [['X-Caller', 'hal']] }),
  ])
  expect(debugFacts(operator)).toMatchObject({ decision: 'allow', policy: 'calls' })
  expect(debugFacts(anybody)).toEqual({})
})

test('[service-9] liveness, readiness and metrics can be asked for', async () => {
  const answers = await Promise.all(['/livez', '/readyz', '/metrics'].map((path) => edge.get(path)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
})
