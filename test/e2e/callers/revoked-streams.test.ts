import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bundle, concurrencyRule, llmRule, policy } from '../../support/bundles/bundles.ts'
import { bearer } from '../../support/callers/asking-workers.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv, proxying, RawClient } from '../../support/proxy/proxy.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { twoSharing } from '../../support/redis/sharing-edge.ts'
import { command } from '../../support/service/command.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { until } from '../../support/until.ts'

const BUNDLE = { ...bundle(1, policy('p', { rules: [concurrencyRule('ten', [], 10, 3600)] })), callers: { mode: 'enforce', keys: {} } }

interface Key {
  readonly id: string
  readonly key: string
}

const create = async (edge: Edge): Promise<Key> =>
  (await askAdmin(edge.adminPort, 'POST', 'keys', { body: { labels: { team: 'a' }, reason: 'a test' } })).json
const revoke = (edge: Edge, { id }: Key, more = '') => askAdmin(edge.adminPort, 'DELETE', `keys/${id}?reason=leaked${more}`)

/** Begins event streams, and never responds to other paths. */
async function streamingBackend(): Promise<HttpBackend> {
  return HttpBackend.start((req, res) => {
    if (req.url === '/silent') return
    res.writeHead(200, { 'Content-Type': req.url === '/plain' ? 'text/plain' : 'text/event-stream' })
    res.write('data: 1\n\n')
  })
}

function opened(edge: Edge, path: string, { key }: Key): StreamClient {
  const client = new StreamClient(edge.port, path, '', bearer(key))
  onTestFinished(() => client.abort())
  return client
}

describe('a key that is revoked', () => {
  test('ends its streams and its other requests under way, gives their places back, and leaves those of other keys alone', async () => {
    const backend = await streamingBackend()
    const sockets = new WebSocketServer({ server: backend.server })
    onTestFinished(() => sockets.close())
    const edge = await proxying(backend, { bundle: BUNDLE, env: ADMIN_ENV })
    const [leaked, other] = [await create(edge), await create(edge)]
    const [events, plain, silent, others] = [
      await opened(edge, '/events', leaked).untilText('data: 1'),
      await opened(edge, '/plain', leaked).untilText('data: 1'),
      opened(edge, '/silent', leaked),
      await opened(edge, '/events', other).untilText('data: 1'),
    ]
    const socket = new WebSocket(`ws://127.0.0.1:${edge.port}/`, { headers: { Authorization: `Bearer ${leaked.key}` } })
    socket.on('error', () => {})
    await once(socket, 'open')
    const closed = once(socket, 'close')
    await until(() => backend.seen.some(({ url }) => url === '/silent'))
    await askAdmin(edge.adminPort, 'PATCH', `keys/${leaked.id}`, { body: { labels: { team: 'b' }, reason: 'moved' } })
    expect([events, plain, silent].map(({ outcome }) => outcome)).toEqual(['open', 'open', 'open'])
    const { status, json } = await revoke(edge, leaked)
    expect([status, json]).toEqual([200, { streams_ended: 4 }])
    await Promise.all([events.untilClosed(), plain.untilClosed(), silent.untilClosed(), closed])
    expect([events.outcome, plain.outcome, silent.outcome, others.outcome]).toEqual(['whole', 'broken', 'whole', 'open'])
    expect([silent.status, silent.headers['x-edge-reason']]).toEqual([401, 'unknown_caller'])
    expect(edge.log.filter(({ event }) => event === 'key_requests_ended')).toMatchObject([{ requests: 4 }])
    await until(async () => /^edge_proxy_open_requests 1$/m.test((await ask(edge.adminPort, 'GET', '/metrics')).body))
    await until(() => backend.seen.filter(({ isAborted }) => isAborted).length === 3)
    // All places but that of the other key are free again.
    const nine = Array.from({ length: 9 }, () => opened(edge, '/events', other))
    expect(await Promise.all(nine.map(async (client) => (await client.untilHead()).status))).toEqual(Array(9).fill(200))
    expect(edge.logged('internal_error')).toEqual([])
    expect((await revoke(edge, leaked)).json).toEqual({ streams_ended: 0 })
  })

  test('does not reach the backend with a request whose body was on its way', async () => {
    const backend = await streamingBackend()
    const budget = policy('llm', { rules: [llmRule('tokens', [], { tokens_per_minute: 1000, max_completion_tokens: 10 })] })
    const edge = await proxying(backend, { bundle: { ...bundle(1, budget), callers: { mode: 'enforce', keys: {} } }, env: ADMIN_ENV })
    const leaked = await create(edge)
    const body = JSON.stringify({ stream: true, messages: [{ role: 'user', content: 'hello' }] })
    const client = await RawClient.connect(edge.port)
    const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${leaked.key}\r\nContent-Length: ${body.length}\r\n\r\n`
    client.socket.write(head + body.slice(0, 10))
    // What came before this has been read when it is answered.
    expect((await edge.get('/v1/models', bearer('nobody'))).status).toBe(401)
    expect((await revoke(edge, leaked)).status).toBe(200)
    client.socket.write(body.slice(10))
    await until(() => client.received.includes('\r\n\r\n'))
    expect(client.received).toContain('401 ')
    expect(backend.seen).toEqual([])
  })

  test('lets its requests go on if the operator wants that', async () => {
    const backend = await streamingBackend()
    const edge = await proxying(backend, { bundle: BUNDLE, env: ADMIN_ENV })
    const leaked = await create(edge)
    const stream = await opened(edge, '/events', leaked).untilText('data: 1')
    expect((await revoke(edge, leaked, '&keep_streams=maybe')).json.error.message).toContain('keep_streams: expected true or false')
    expect((await revoke(edge, leaked, '&keep_streams=true')).json).toEqual({ streams_ended: 0 })
    expect((await edge.get('/events', bearer(leaked.key))).status).toBe(401)
    expect(stream.outcome).toBe('open')
    // It can be ended later.
    const env = { EDGE_ADMIN_URL: `http://127.0.0.1:${edge.adminPort}`, EDGE_ADMIN_TOKEN: ADMIN_ENV['EDGE_ADMIN_TOKEN'] }
    Object.assign(process.env, env)
    onTestFinished(() => {
      for (const name of Object.keys(env)) delete process.env[name]
    })
    const again = await command('keys', 'revoke', leaked.id, '--reason', 'leaked', '--actor', 'ada')
    expect(again.stdout).toBe('Revoked. 1 stream of this key was ended.\n')
    await stream.untilClosed()
  })
})

describeWithRedis('a key of a fleet that is revoked', () => {
  test('ends its streams on every instance, unless they are kept', async () => {
    const redis = await runningRedis()
    const backend = await streamingBackend()
    const [one, other] = await twoSharing(redis.url, { bundle: BUNDLE, env: { ...ADMIN_ENV, ...proxyEnv(backend.url) } })
    const [leaked, kept] = [await create(one), await create(one)]
    await until(async () => (await askAdmin(other.adminPort, 'GET', `keys/${kept.id}`)).status === 200)
    const streams = await Promise.all(
      [opened(one, '/events', leaked), opened(other, '/events', leaked), opened(other, '/events', kept)].map((each) =>
        each.untilText('data: 1'),
      ),
    )
    expect((await revoke(one, kept, '&keep_streams=true')).json).toEqual({ streams_ended: 0 })
    expect((await revoke(one, leaked)).json).toEqual({ streams_ended: 1 })
    await Promise.all(streams.slice(0, 2).map((each) => each.untilClosed()))
    await until(async () => (await askAdmin(other.adminPort, 'GET', `keys/${kept.id}`)).json.status === 'revoked')
    expect(streams.map(({ outcome }) => outcome)).toEqual(['whole', 'whole', 'open'])
    expect(other.log.filter(({ event }) => event === 'key_requests_ended')).toMatchObject([{ requests: 1 }])
  })
})
