import { once } from 'node:events'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { debugFacts, logIn, SECRET_ENV } from '../../conformance/debug-login.ts'
import { blockRule, bundle, llmRule, policy } from '../bundles/bundles.ts'
import type { HttpBackend } from '../proxy/backend.ts'
import { ask, type Fields } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { until } from '../until.ts'
import { type Gateway, isGrpc } from './gateway.ts'
import { ALICE, behind, edgeAllowing, oneRule, startEdge, statusAndReason } from './gateway-setup.ts'
import { recordingEdge } from './recording-edge.ts'

const LARGE = Buffer.alloc(3 << 20, 'edge')

/** What passes, what is rejected, and how both look to the client. */
export function trafficSuite(gateway: Gateway): void {
  test('lets through what is allowed, and rejects the rest with 429, Retry-After and the RateLimit fields', async () => {
    const edge = await edgeAllowing(1)
    const { port, backend } = await behind(gateway, edge)
    const allowed = await ask(port, 'GET', '/path?query', ALICE)
    expect([...statusAndReason(allowed), allowed.body]).toEqual([200, undefined, 'hello'])
    if (gateway.limits.noRateLimitOnAllow) expect(allowed.headers['ratelimit']).toBeUndefined()
    else expect(allowed.headers).toMatchObject(rateLimit(0))
    const rejected = await ask(port, 'GET', '/path?query', ALICE)
    expect(statusAndReason(rejected)).toEqual([429, 'token_bucket_exceeded'])
    expect(rejected.headers).toMatchObject({ 'retry-after': '1', ...rateLimit(0) })
    expect([backend.only.method, backend.only.url, backend.only.headers['x-api-key']]).toEqual(['GET', '/path?query', 'alice'])
    for (const outcome of ['allow', 'reject']) {
      expect(await edge.metric(`edge_questions_total{door="${gateway.door}",outcome="${outcome}"}`)).toBe(1)
    }
  })

  test('sends no RateLimit field where no rule applied', async () => {
    const { port } = await behind(gateway, await edgeAllowing(1))
    const { status, headers } = await ask(port, 'GET', '/')
    expect([status, Object.keys(headers).filter((name) => name.startsWith('ratelimit'))]).toEqual([200, []])
  })

  test('passes bodies on whole: small, large, without a length, after Expect; a rejected one reaches nobody', async () => {
    const { port, backend } = await behind(gateway, await edgeAllowing(4))
    await ask(port, 'POST', '/', ALICE, 'a body')
    await ask(port, 'PUT', '/', ALICE, LARGE)
    expect(await send(port, { 'Transfer-Encoding': 'chunked' })).toBe(200)
    expect(await send(port, { Expect: '100-continue', 'Content-Length': String(LARGE.length) })).toBe(200)
    const bodies = await Promise.all(backend.seen.map((seen) => seen.body()))
    expect(bodies.map((body) => body.equals(LARGE) || String(body))).toEqual(['a body', true, true, true])
    expect((await ask(port, 'POST', '/', ALICE, 'one more')).status).toBe(429)
    expect(backend.seen).toHaveLength(4)
  })

  test('HEAD is asked about as HEAD, and gets no body', async () => {
    const edge = await startEdge({
      bundle: bundle(1, policy('api', { selector: { methods: ['HEAD'] }, rules: [blockRule('no-heads')] })),
    })
    const { port, backend } = await behind(gateway, edge)
    expect((await ask(port, 'GET', '/')).status).toBe(200)
    const head = await ask(port, 'HEAD', '/')
    expect([...statusAndReason(head), head.body]).toEqual([403, 'blocked', ''])
    expect(backend.seen).toHaveLength(1)
  })

  test('a WebSocket is decided once, then carries messages both ways; a rejected one gets 429', async () => {
    const edge = await edgeAllowing(1)
    const { port, backend } = await behind(gateway, edge)
    echoMessages(backend)
    const client = openWebSocket(port)
    await once(client, 'open')
    client.send('hello')
    const [echoed] = (await once(client, 'message')) as [Buffer]
    expect(String(echoed)).toBe('hello')
    const rejected = openWebSocket(port)
    const [, response] = (await once(rejected, 'unexpected-response')) as [unknown, IncomingMessage]
    expect([response.statusCode, response.headers['retry-after'], backend.seen]).toEqual([429, '1', []])
    client.close()
    await once(client, 'close')
  })

  // Questions over gRPC have fields of the request as data.
  test.skipIf(isGrpc(gateway))('asks without a body, and without the fields that belong to one or to the connection', async () => {
    const asked = await recordingEdge(gateway)
    const { port, backend } = await behind(gateway, asked)
    echoMessages(backend)
    await send(port, { 'Transfer-Encoding': 'chunked', TE: 'trailers', Trailer: 'X-Sum' })
    await send(port, { Expect: '100-continue', 'Content-Length': String(LARGE.length) })
    await once(openWebSocket(port), 'open')
    for (const { headers } of asked.seen) {
      const foreign = ['transfer-encoding', 'te', 'trailer', 'expect', 'upgrade'].filter((name) => name in headers)
      expect([foreign, headers['content-length'] ?? '0']).toEqual([[], '0'])
      expect([undefined, gateway.limits.noKeepAlive ? 'close' : 'keep-alive']).toContain(headers.connection?.toLowerCase())
    }
    expect(asked.seen).toHaveLength(3)
  })

  test('passes the events of a stream on as they come', async () => {
    const { port, backend } = await behind(gateway, await edgeAllowing(1))
    const streams: ServerResponse[] = []
    backend.handler = (_req, res) => {
      streams.push(res.writeHead(200, { 'Content-Type': 'text/event-stream' }))
      res.write('data: first\n\n')
    }
    const req = request({ port, host: '127.0.0.1', headers: Object.fromEntries(ALICE), agent: false }).end()
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    let received = ''
    res.on('data', (bytes: Buffer) => {
      received += bytes
    })
    // The backend has not finished: this comes only if nobody waits for the end.
    await until(() => received === 'data: first\n\n')
    const ended = once(res, 'end')
    streams[0]!.end('data: last\n\n')
    await ended
    expect(received).toBe('data: first\n\ndata: last\n\n')
  })

  test('a token budget is enforced like a plain rule', async () => {
    const rules = [llmRule('budget', ['header:x-api-key'], { tokens_per_minute: 1000, max_completion_tokens: 600 })]
    const edge = await startEdge({ bundle: bundle(1, policy('llm', { rules })), clock: new ManualClock() })
    const { port, backend } = await behind(gateway, edge)
    const prompt = JSON.stringify({ messages: [{ role: 'user', content: 'hello' }] })
    expect((await ask(port, 'POST', '/v1/chat/completions', ALICE, prompt)).status).toBe(200)
    const rejected = await ask(port, 'POST', '/v1/chat/completions', ALICE, prompt)
    expect(statusAndReason(rejected)).toEqual([429, 'tpm_exceeded'])
    expect(rejected.headers).toMatchObject({ 'retry-after': '12', 'ratelimit-limit': '1000' })
    expect(String(await backend.only.body())).toBe(prompt)
  })

  test('shows a debug session why it was rejected', async () => {
    const bundle = oneRule(1)
    const edge = await startEdge({ bundle, clock: new ManualClock(), env: SECRET_ENV })
    const { port } = await behind(gateway, edge)
    const fields: Fields = [...ALICE, ['Cookie', (await logIn(edge)).pair]]
    await ask(port, 'GET', '/', fields)
    const rejected = await ask(port, 'GET', '/', fields)
    expect(rejected.status).toBe(429)
    if (gateway.limits.noDebugFields) expect(debugFacts(rejected)).toEqual({})
    else expect(debugFacts(rejected)).toMatchObject({ decision: 'reject', policy: 'api', rule: 'per-key' })
  })

  test('passes a block on as 403 with its reason, and leaves a 403, 429 or 500 of the backend alone', async () => {
    const rules = [blockRule('acme', { 'header:x-api-key': 'alice' })]
    const { port, backend } = await behind(gateway, await startEdge({ bundle: bundle(1, policy('incident', { rules })) }))
    const blocked = await ask(port, 'GET', '/', ALICE)
    expect([...statusAndReason(blocked), blocked.headers['x-should-retry']]).toEqual([403, 'blocked', 'false'])
    expect(backend.seen).toHaveLength(0)
    for (const status of [403, 429, 500]) {
      backend.handler = (_req, res) => void res.writeHead(status, { 'Content-Type': 'text/plain', 'Retry-After': 7 }).end('not yours')
      const answer = await ask(port, 'GET', '/')
      expect([...statusAndReason(answer), answer.headers['retry-after'], answer.body]).toEqual([status, undefined, '7', 'not yours'])
    }
  })
}

function rateLimit(remaining: number): Record<string, string> {
  return {
    ratelimit: `"api";r=${remaining};t=1`,
    'ratelimit-limit': '1',
    'ratelimit-remaining': String(remaining),
    'ratelimit-reset': '1',
  }
}

/** Sends the large body, and returns the status. With `Expect`, only when told to. */
async function send(port: number, fields: Readonly<Record<string, string>>): Promise<number> {
  const headers = { ...Object.fromEntries(ALICE), ...fields }
  const req = request({ port, host: '127.0.0.1', method: 'POST', headers, agent: false })
  const answered = once(req, 'response') as Promise<[IncomingMessage]>
  if ('Expect' in fields) {
    req.flushHeaders()
    await once(req, 'continue')
  }
  req.end(LARGE)
  const [res] = await answered
  await once(res.resume(), 'end')
  return res.statusCode!
}

function echoMessages(backend: HttpBackend): void {
  const server = new WebSocketServer({ server: backend.server })
  server.on('connection', (socket) => socket.on('message', (data) => socket.send(data)))
  onTestFinished(() => {
    for (const socket of server.clients) socket.terminate()
  })
}

function openWebSocket(port: number): WebSocket {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: Object.fromEntries(ALICE) })
  onTestFinished(() => socket.on('error', () => {}).terminate())
  return socket
}
