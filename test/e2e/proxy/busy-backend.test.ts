import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient, statusesIn, valuesOf } from '../../support/proxy/proxy.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
const WEB_SOCKET = 'GET /w HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
/** Longer than any test. */
const LONG = '600000'

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`

describe('when all connections to the backend are in use', () => {
  test('requests wait, are sent in the order in which they came, and no connection more is opened', async () => {
    const backend = await HttpBackend.start((req, res) => {
      // Only what is not slow ends by itself.
      if (!req.url!.startsWith('/slow')) res.end(req.url)
    })
    const edge = await proxying(backend, { env: { EDGE_BACKEND_MAX_CONNECTIONS: '2', EDGE_BACKEND_QUEUE_MS: LONG } })
    const slow = ['/slow1', '/slow2'].map((path) => asking(edge.port, path))
    await until(() => backend.seen.length === 2)
    const clients: RawClient[] = []
    for (let i = 0; i < 20; i++) {
      clients.push(asking(edge.port, `/${i}`))
      await until(async () => (await edge.metric('edge_backend_queue_requests')) === i + 1)
    }
    slow[0]!.socket.resetAndDestroy()
    for (const [i, client] of clients.entries()) await client.sees(`/${i}`)
    expect(backend.seen.slice(2).map(({ url }) => url)).toEqual(clients.map((_, i) => `/${i}`))
    expect([backend.connections <= 3, await edge.metric('edge_backend_queue_requests')]).toEqual([true, 0])
    expect(await edge.metric('edge_backend_queue_seconds_count')).toBe(20)
  })

  test('a request that has waited for EDGE_BACKEND_QUEUE_MS gets 503 backend_busy and is told when to come back', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend, { env: { EDGE_BACKEND_MAX_CONNECTIONS: '1', EDGE_BACKEND_QUEUE_MS: '30' } })
    asking(edge.port, '/slow')
    await until(() => backend.heads === 1)
    const answer = await asking(edge.port, '/').next()
    expect([answer.status, valuesOf(answer, 'X-Edge-Reason'), valuesOf(answer, 'Retry-After')]).toEqual([503, ['backend_busy'], ['1']])
    expect(JSON.parse(answer.body).error).toMatchObject({ code: 'backend_busy', type: 'service_unavailable' })
    expect(await edge.metric('edge_backend_failures_total{reason="backend_busy"}')).toBe(1)
    expect(await untilLogged(edge, 'backend_failed')).toMatchObject([{ reason: 'backend_busy' }])
    expect(backend.heads).toBe(1)
  })

  test('a client that leaves leaves the queue, and its request is never sent', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend, { env: { EDGE_BACKEND_MAX_CONNECTIONS: '1', EDGE_BACKEND_QUEUE_MS: LONG } })
    asking(edge.port, '/slow')
    await until(() => backend.heads === 1)
    const leaver = asking(edge.port, '/leaver')
    await until(async () => (await edge.metric('edge_backend_queue_requests')) === 1)
    leaver.socket.resetAndDestroy()
    await until(async () => (await edge.metric('edge_backend_queue_requests')) === 0)
    const stayer = asking(edge.port, '/stayer')
    await until(async () => (await edge.metric('edge_backend_queue_requests')) === 1)
    backend.connections[0]!.socket.write(OK)
    await until(() => backend.heads === 2)
    backend.connections[0]!.socket.write(OK)
    await stayer.sees('ok')
    expect(backend.received).not.toContain('/leaver')
  })

  test('a WebSocket holds its connection until it ends', async () => {
    const backend = await RawBackend.start((connection) => {
      connection.socket.write(connection.received.startsWith('GET /w') ? SWITCHED : OK)
    })
    const edge = await proxying(backend, { env: { EDGE_BACKEND_MAX_CONNECTIONS: '1', EDGE_BACKEND_QUEUE_MS: LONG } })
    const socket = RawClient.connect(edge.port)
    socket.send(WEB_SOCKET)
    await socket.sees(' 101 ')
    const client = asking(edge.port, '/')
    await until(async () => (await edge.metric('edge_backend_queue_requests')) === 1)
    socket.socket.end()
    expect((await client.next()).body).toBe('ok')
    // And one that begins while an idle connection has the last place gets that place.
    const other = RawClient.connect(edge.port)
    other.send(WEB_SOCKET)
    await other.sees(' 101 ')
    expect(backend.connections).toHaveLength(3)
  })

  test('a retry waits in the queue too', async () => {
    const backend = await RawBackend.start(({ socket, heads }) => void (heads === 1 ? socket.write(OK) : socket.resetAndDestroy()))
    const edge = await proxying(backend, { env: { EDGE_BACKEND_MAX_CONNECTIONS: '1', EDGE_BACKEND_QUEUE_MS: LONG } })
    const [first, second] = [asking(edge.port, '/1'), asking(edge.port, '/2')]
    expect([(await first.next()).status, (await second.next()).status]).toEqual([200, 200])
    expect(await edge.metric('edge_backend_retries_total{reason="backend_reset"}')).toBe(1)
  })

  test('a token budget gets its reservation back', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend, {
      bundle: bundle(1, policy('p', { selector: { pathPrefix: '/llm' }, rules: [llmRule('r', [], { tokens_per_minute: 1000 })] })),
      env: { EDGE_BACKEND_MAX_CONNECTIONS: '1', EDGE_BACKEND_QUEUE_MS: '1' },
    })
    asking(edge.port, '/slow')
    await until(() => backend.heads === 1)
    const client = RawClient.connect(edge.port)
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], max_tokens: 900 })
    for (let i = 0; i < 3; i++) client.send(`POST /llm HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    await until(() => statusesIn(client.received).length === 3)
    expect(statusesIn(client.received)).toEqual([503, 503, 503])
  })
})

function asking(port: number, path: string): RawClient {
  const client = RawClient.connect(port)
  client.send(get(path))
  return client
}
