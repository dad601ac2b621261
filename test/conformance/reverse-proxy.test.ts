import { expect, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { CHAT, HELLO, llmProxy, proxyEnv } from '../support/llm/llm-proxy.ts'
import { answeringLlm, type ScriptedLlm, scriptedLlm } from '../support/llm/scripted-llm.ts'
import { StreamClient } from '../support/llm/stream-client.ts'
import { type Answer, ask, exchange, type Fields } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running } from '../support/service/running.ts'
import { readAnswers } from '../support/service/wire.ts'
import { until } from '../support/until.ts'

/** Specification: What the service does, in the mode reverse_proxy. */

const RULES = (name: string, burst: number) => [bucketRule(name, [], burst, 1e-6)]

/** The proxy before a backend that answers 201 to everything. */
async function proxied(...policies: readonly ReturnType<typeof policy>[]): Promise<{ port: number; backend: ScriptedLlm }> {
  const backend = await answeringLlm(201, 'from the backend', { 'X-Backend': 'yes', 'Content-Type': 'text/plain' })
  const edge = await running({ clock: new ManualClock(), bundle: bundle(1, ...policies), env: proxyEnv(backend) })
  return { port: edge.port, backend }
}

test('[proxy-1] with EDGE_MODE=reverse_proxy the service is a proxy before EDGE_BACKEND_URL', async () => {
  const read = readConfig({ EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:9000' }, {})
  expect(read.ok && read.config.mode).toBe('reverse_proxy')
  const { port } = await proxied()
  expect(await ask(port, 'GET', '/anything')).toMatchObject({ status: 201, body: 'from the backend' })
})

test('[proxy-2] host, method and URI are those of the proxied request itself, not those of X-Original headers', async () => {
  const { port } = await proxied(
    policy('orders', { selector: { pathPrefix: '/orders', hosts: ['shop.example'], methods: ['DELETE'] }, rules: RULES('deletes', 5) }),
  )
  const limit = async (method: string, path: string, fields: Fields) => limitOf(await rawAsk(port, method, path, fields))
  expect(await limit('DELETE', '/orders/7', [['Host', 'shop.example']])).toBe('"orders";r=4')
  expect(await limit('GET', '/orders/7', [['Host', 'shop.example']])).toBe('no limit')
  expect(await limit('DELETE', '/baskets/7', [['Host', 'shop.example']])).toBe('no limit')
  expect(await limit('DELETE', '/orders/7', [['Host', 'other.example']])).toBe('no limit')
  const originals: Fields = [
    ['X-Original-Host', 'shop.example'],
    ['X-Original-Method', 'DELETE'],
    ['X-Original-URI', '/orders/7'],
  ]
  expect(await limit('GET', '/', [['Host', 'other.example'], ...originals])).toBe('no limit')
})

test('[proxy-3] the headers of the decision are written on the proxied response', async () => {
  const { port } = await proxied(policy('all', { rules: RULES('calls', 3) }))
  const { headers, status } = await ask(port, 'GET', '/')
  expect([status, headers['x-backend']]).toEqual([201, 'yes'])
  expect(headers).toMatchObject({
    'ratelimit-limit': '3',
    'ratelimit-remaining': '2',
    'ratelimit-reset': expect.stringMatching(/^\d+$/),
    ratelimit: expect.stringMatching(/^"all";r=2;t=\d+$/),
  })
})

test('[proxy-4] the request body is consumed and forwarded to the backend', async () => {
  const { port, backend } = await proxied(policy('all', { rules: RULES('calls', 3) }))
  await ask(port, 'PUT', '/file', [], 'the whole body, byte for byte: \u00e9')
  expect(backend.calls[0]!.body).toBe('the whole body, byte for byte: \u00e9')
  const llmBackend = await answeringLlm(200, {})
  const proxy = await llmProxy(llmBackend)
  await proxy.post(CHAT, { messages: HELLO })
  expect(llmBackend.calls[0]!.body).toBe(JSON.stringify({ messages: HELLO }))
})

test('[proxy-5] it is transparent: method, target, fields and body reach the backend, and its answer the client', async () => {
  const { port, backend } = await proxied()
  const answer = await ask(port, 'PATCH', '/a/b%20c/../d?e=f&g', [['X-Client', 'me']], 'body')
  const { req, body } = backend.calls[0]!
  expect([req.method, req.url, req.headers['x-client'], body]).toEqual(['PATCH', '/a/b%20c/../d?e=f&g', 'me', 'body'])
  expect([answer.status, answer.headers['x-backend'], answer.body]).toEqual([201, 'yes', 'from the backend'])
})

test('[proxy-6] policy is enforced on every proxied request, and a reject never touches the backend', async () => {
  const { port, backend } = await proxied(policy('all', { rules: RULES('calls', 3) }))
  const statuses: number[] = []
  for (const method of ['GET', 'POST', 'DELETE', 'PUT', 'GET']) statuses.push((await ask(port, method, `/${method}`)).status)
  expect(statuses).toEqual([201, 201, 201, 429, 429])
  expect(backend.calls.map(({ req }) => req.url)).toEqual(['/GET', '/POST', '/DELETE'])
})

test('[proxy-7] callers do not call /v1/decision: it is a path of the backend like any other', async () => {
  const { port, backend } = await proxied()
  const answer = await ask(port, 'POST', '/v1/decision', [
    ['X-Original-Method', 'GET'],
    ['X-Original-URI', '/'],
  ])
  expect([answer.status, answer.body, backend.calls[0]!.req.url]).toEqual([201, 'from the backend', '/v1/decision'])
})

test('[proxy-8] a reject carries Retry-After, X-Edge-Reason and the RateLimit headers', async () => {
  const { port } = await proxied(policy('all', { rules: RULES('calls', 1) }))
  await ask(port, 'GET', '/')
  const { status, headers } = await ask(port, 'GET', '/')
  expect(status).toBe(429)
  expect(headers).toMatchObject({
    'retry-after': expect.stringMatching(/^\d+$/),
    'x-edge-reason': 'token_bucket_exceeded',
    'ratelimit-limit': '1',
    'ratelimit-remaining': '0',
    'ratelimit-reset': headers['retry-after'],
    ratelimit: `"all";r=0;t=${headers['retry-after']}`,
  })
})

test('[proxy-9] without a bundle every proxied request is 503 no_bundle_loaded', async () => {
  const backend = await answeringLlm(200, {})
  const edge = await running({ env: proxyEnv(backend) })
  const { status, headers } = await edge.get('/anything')
  expect([status, headers['x-edge-reason'], backend.calls.length]).toEqual([503, 'no_bundle_loaded', 0])
})

test('[proxy-10] a token budget that cannot cover the reservation is 429 tpm_exceeded before the stream starts', async () => {
  const backend = await scriptedLlm()
  const proxy = await llmProxy(backend, { minuteTokens: 600 })
  const first = new StreamClient(proxy.port, CHAT, JSON.stringify({ stream: true, messages: HELLO, max_tokens: 500 }))
  await until(() => backend.calls.length === 1)
  const { status, headers } = await proxy.post(CHAT, { stream: true, messages: HELLO, max_tokens: 500 })
  expect([status, headers['x-edge-reason'], headers['content-type'], backend.calls.length]).toEqual([
    429,
    'tpm_exceeded',
    'application/json',
    1,
  ])
  backend.calls[0]!.answer(500, {})
  await first.untilClosed()
})

function limitOf({ headers }: Pick<Answer, 'headers'>): string {
  return headers['ratelimit']?.split(';t=')[0] ?? 'no limit'
}

/** Like `ask`, with a Host of its own. */
async function rawAsk(port: number, method: string, path: string, fields: Fields): Promise<Pick<Answer, 'headers'>> {
  const lines = [`${method} ${path} HTTP/1.1`, 'Connection: close', ...fields.map(([name, value]) => `${name}: ${value}`)]
  return readAnswers(await exchange(port, `${lines.join('\r\n')}\r\n\r\n`))[0]!
}
