import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { bucketRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { describeWith } from '../support/describe-with.ts'
import { callerSuite, edgeThatKnows } from '../support/gateways/caller-suite.ts'
import { askingWhoCalls, ENVOY_RATE_LIMIT } from '../support/gateways/envoy.ts'
import { example } from '../support/gateways/gateway.ts'
import { ALICE, behind, portFor, startEdge, statusAndReason } from '../support/gateways/gateway-setup.ts'
import type { HttpBackend } from '../support/proxy/backend.ts'
import { gateTo } from '../support/redis/tcp-gate.ts'
import type { Edge } from '../support/service/edge.ts'
import { ask, type Fields } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { suspend } from '../support/service/process-facts.ts'
import { scratchDirectory, serving } from '../support/service/running.ts'
import { until } from '../support/until.ts'

const LARGE = Buffer.alloc(3 << 20, 'edge')
const BOB: Fields = [['X-Api-Key', 'bob']]

describeWith(ENVOY_RATE_LIMIT.missing, `${ENVOY_RATE_LIMIT.name} with the documented configuration`, () => {
  test('lets through what is allowed, and rejects the rest with 429, Retry-After and the RateLimit fields, key by key', async () => {
    const edge = await edgeAllowing(1)
    const { port, backend } = await behind(ENVOY_RATE_LIMIT, edge)
    const allowed = await ask(port, 'GET', '/path?query', ALICE)
    expect([allowed.status, allowed.body, allowed.headers['ratelimit'], allowed.headers['ratelimit-remaining']]).toEqual([
      200,
      'hello',
      '"keys";r=0;t=1',
      '0',
    ])
    const rejected = await ask(port, 'GET', '/', ALICE)
    expect(statusAndReason(rejected)).toEqual([429, 'token_bucket_exceeded'])
    expect(rejected.headers).toMatchObject({ 'retry-after': '1', ratelimit: '"keys";r=0;t=1', 'ratelimit-limit': '1' })
    expect((await ask(port, 'GET', '/', BOB)).status).toBe(200)
    expect((await ask(port, 'GET', '/')).status).toBe(200)
    expect(backend.seen.map(({ url }) => url)).toEqual(['/path?query', '/', '/'])
    expect(await edge.metric('edge_questions_total{door="rate_limit",outcome="reject"}')).toBe(1)
  })

  test('works with the bundle beside it: an address that is banned gets nowhere', async () => {
    const limits = load(example('envoy-rate-limit/limits.yaml')) as {
      policies: { spec: { rules: { match: Record<string, string[]> }[] } }[]
    }
    const open = await behind(ENVOY_RATE_LIMIT, await startEdge({ bundle: limits, clock: new ManualClock() }))
    const { headers } = await ask(open.port, 'GET', '/', ALICE)
    expect([headers['ratelimit'], headers['ratelimit-limit']]).toEqual(['"api-keys";r=19;t=1', '20'])
    limits.policies[1]!.spec.rules[0]!.match['descriptor:remote_address']!.push(
      '127.0.0.1',
      ENVOY_RATE_LIMIT.loopbackAddress ?? '127.0.0.1',
    )
    const banned = await behind(ENVOY_RATE_LIMIT, await startEdge({ bundle: limits }))
    // What a client says of its address changes nothing.
    for (const forged of ['192.0.2.1', '127.0.0.9, 192.0.2.1']) {
      expect(statusAndReason(await ask(banned.port, 'GET', '/', [...ALICE, ['X-Forwarded-For', forged]]))).toEqual([429, 'blocked'])
    }
    expect(banned.backend.seen).toHaveLength(0)
  })

  test('passes bodies, HEAD, WebSockets and streams on, each decided once, at its beginning', async () => {
    const { port, backend } = await behind(ENVOY_RATE_LIMIT, await edgeAllowing(4))
    expect((await ask(port, 'PUT', '/', ALICE, LARGE)).status).toBe(200)
    expect((await backend.only.body()).equals(LARGE)).toBe(true)
    expect((await ask(port, 'HEAD', '/', ALICE)).status).toBe(200)
    await expectStream(port, backend)
    await expectEcho(port, backend)
    expect((await ask(port, 'POST', '/', ALICE, 'one more')).status).toBe(429)
    expect((await ask(port, 'HEAD', '/', ALICE)).status).toBe(429)
    const rejected = openWebSocket(port)
    const [, response] = (await once(rejected, 'unexpected-response')) as [unknown, IncomingMessage]
    expect([response.statusCode, response.headers['retry-after']]).toEqual([429, '1'])
    expect(backend.seen).toHaveLength(3)
  })

  test('keeps its connections to edge, whatever the answers are', async () => {
    const gate = await gateTo(portFor(ENVOY_RATE_LIMIT, await edgeAllowing(50)))
    const { port } = await behind(ENVOY_RATE_LIMIT, gate)
    const statuses: number[] = []
    for (let i = 0; i < 100; i++) statuses.push((await ask(port, 'GET', '/', ALICE)).status)
    expect(statuses).toEqual([...Array<number>(50).fill(200), ...Array<number>(50).fill(429)])
    expect(gate.connections).toBeLessThanOrEqual(4)
  })

  test('of a key that comes twice, the limit and the backend see the same one', async () => {
    const { port, backend } = await behind(ENVOY_RATE_LIMIT, await edgeAllowing(1), 'fail open')
    expect((await ask(port, 'GET', '/', [...ALICE, ...BOB])).status).toBe(200)
    expect(backend.only.headers['x-api-key']).toBe('alice')
    expect((await ask(port, 'GET', '/', [...ALICE, ['X-Api-Key', 'x1']])).status).toBe(429)
    expect((await ask(port, 'GET', '/', BOB)).status).toBe(200)
  })

  test('fails closed: 503, and no request reaches the backend, while edge is gone or has no bundle', async () => {
    const edge = await edgeAllowing(10)
    const { port, backend } = await behind(ENVOY_RATE_LIMIT, edge)
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(200)
    await edge.stop()
    expect((await ask(port, 'POST', '/', ALICE, 'a body')).status).toBe(503)
    const unready = await behind(ENVOY_RATE_LIMIT, await startEdge())
    expect((await ask(unready.port, 'GET', '/', ALICE)).status).toBe(503)
    expect([backend.seen.length, unready.backend.seen.length]).toEqual([1, 0])
  })

  test('fails open where it is told to, and a reject stays one', async () => {
    const edge = await edgeAllowing(1)
    const { port, backend } = await behind(ENVOY_RATE_LIMIT, edge, 'fail open')
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(200)
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(429)
    await edge.stop()
    expect((await ask(port, 'POST', '/path?query', ALICE, 'a body')).status).toBe(200)
    expect([backend.seen.at(-1)!.url, String(await backend.seen.at(-1)!.body())]).toEqual(['/path?query', 'a body'])
    const unready = await behind(ENVOY_RATE_LIMIT, await startEdge(), 'fail open')
    expect((await ask(unready.port, 'GET', '/', ALICE)).status).toBe(200)
  })

  // The process still accepts connections: the kernel does that for it.
  test('gives up on an edge that does not respond, in both variants, and asks it again afterwards', async () => {
    const file = join(await scratchDirectory(), 'bundle.json')
    await writeFile(file, JSON.stringify(keysAllowing(2)))
    const edge = await serving({ EDGE_CONFIG_FILE: file, EDGE_GRPC_PORT: '0' })
    const closed = await behind(ENVOY_RATE_LIMIT, edge, 'fail closed', 'a second')
    const open = await behind(ENVOY_RATE_LIMIT, edge, 'fail open', 'a second')
    for (const { port } of [closed, open]) await until(async () => (await ask(port, 'GET', '/', ALICE)).status === 200)
    await suspend(edge)
    expect((await ask(closed.port, 'GET', '/', BOB)).status).toBe(503)
    expect((await ask(open.port, 'GET', '/', BOB)).status).toBe(200)
    edge.process.kill('SIGCONT')
    await until(async () => (await ask(closed.port, 'GET', '/', ALICE)).status === 429)
  })

  test.for([
    ['a response', 'application/json', '{"usage":{"total_tokens":70}}'],
    ['a stream', 'text/event-stream', 'data: {"choices":[]}\n\ndata: {"usage":{"total_tokens":70}}\n\ndata: [DONE]\n\n'],
  ] as const)('charges the tokens that %s used when it is over, and asks first whether any are left', async ([_what, type, body]) => {
    const budget = llmRule('budget', ['descriptor:api_key'], { tokens_per_minute: 100 })
    const selector = { domain: 'api', descriptors: { 'descriptor:budget': 'tokens' } }
    const edge = await startEdge({ bundle: bundle(1, policy('tokens', { selector, rules: [budget] })), clock: new ManualClock() })
    const { port, backend } = await behind(ENVOY_RATE_LIMIT, edge)
    backend.handler = (_req, res) => void res.writeHead(200, { 'Content-Type': type }).end(body)
    for (const remaining of ['100', '30']) {
      const { status, headers, body: received } = await ask(port, 'POST', '/v1/chat/completions', ALICE, '{}')
      expect([status, received, headers['ratelimit-remaining']]).toEqual([200, body, remaining])
      await isCharged(edge, remaining === '100' ? 2 : 4)
    }
    // 40 tokens of debt, and one to be had: 41 tokens at 100 a minute.
    const rejected = await ask(port, 'POST', '/v1/chat/completions', ALICE, '{}')
    expect([...statusAndReason(rejected), rejected.headers['retry-after']]).toEqual([429, 'tpm_exceeded', '25'])
    expect((await ask(port, 'POST', '/v1/chat/completions', BOB, '{}')).status).toBe(200)
    expect(backend.seen).toHaveLength(3)
  })

  test('a response that says nothing about tokens is charged none', async () => {
    const budget = llmRule('budget', ['descriptor:api_key'], { tokens_per_minute: 100 })
    const selector = { domain: 'api', descriptors: { 'descriptor:budget': 'tokens' } }
    const edge = await startEdge({ bundle: bundle(1, policy('tokens', { selector, rules: [budget] })), clock: new ManualClock() })
    const { port, backend } = await behind(ENVOY_RATE_LIMIT, edge)
    backend.handler = (_req, res) => void res.writeHead(500, { 'Content-Type': 'application/json' }).end('{"error":"no"}')
    for (let i = 0; i < 3; i++) expect((await ask(port, 'POST', '/', ALICE, '{}')).headers['ratelimit-remaining']).toBe('100')
  })
})

describeWith(ENVOY_RATE_LIMIT.missing, 'Envoy, asking who calls before it asks the rate limit service', () => {
  callerSuite(askingWhoCalls())
})

test.skipIf(ENVOY_RATE_LIMIT.missing)(
  'Envoy, asking the rate limit service alone, lets unknown callers pass, as its page says',
  async () => {
    const { port } = await behind(ENVOY_RATE_LIMIT, await edgeThatKnows('search'))
    expect((await ask(port, 'GET', '/')).status).toBe(200)
  },
)

function edgeAllowing(burst: number): Promise<Edge> {
  return startEdge({ bundle: keysAllowing(burst), clock: new ManualClock() })
}

function keysAllowing(burst: number): object {
  return bundle(1, policy('keys', { selector: { domain: 'api' }, rules: [bucketRule('key', ['descriptor:api_key'], burst)] }))
}

/** Envoy charges after the response, and tells nobody. */
function isCharged(edge: Edge, questions: number): Promise<void> {
  return until(async () => (await edge.metric('edge_questions_total{door="rate_limit",outcome="allow"}')) === questions)
}

async function expectStream(port: number, backend: HttpBackend): Promise<void> {
  const { handler } = backend
  const streams: ServerResponse[] = []
  backend.handler = (_req, res) => {
    streams.push(res.writeHead(200, { 'Content-Type': 'text/event-stream' }))
    res.write('data: first\n\n')
  }
  const req = request({ port, host: '127.0.0.1', headers: Object.fromEntries(ALICE), agent: false }).end()
  const [res] = (await once(req, 'response')) as [IncomingMessage]
  const [first] = (await once(res, 'data')) as [Buffer]
  expect(String(first)).toBe('data: first\n\n')
  streams[0]!.end('data: last\n\n')
  await once(res.resume(), 'end')
  backend.handler = handler
}

async function expectEcho(port: number, backend: HttpBackend): Promise<void> {
  const server = new WebSocketServer({ server: backend.server })
  server.on('connection', (socket) => socket.on('message', (data) => socket.send(data)))
  onTestFinished(() => {
    for (const socket of server.clients) socket.terminate()
  })
  const client = openWebSocket(port)
  await once(client, 'open')
  client.send('hello')
  const [echoed] = (await once(client, 'message')) as [Buffer]
  expect(String(echoed)).toBe('hello')
  client.close()
  await once(client, 'close')
}

function openWebSocket(port: number): WebSocket {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: Object.fromEntries(ALICE) })
  onTestFinished(() => socket.on('error', () => {}).terminate())
  return socket
}
