import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient, writeUntilStuck } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { heldTime } from '../../support/service/held-time.ts'
import { until } from '../../support/until.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const UPLOAD = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'
const HALF = 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
/** Every limit that a test with held time is about. */
const LIMIT_MS = 60_000
const LIMIT = String(LIMIT_MS)
/** What is due after the limit is due by then, and nothing that may take twice as long is. */
const TOO_LONG_MS = 1.5 * LIMIT_MS
/** What may go on for as long as it likes must not be silent for longer. */
const PAUSE_MS = 0.6 * LIMIT_MS
const NEVER = '0'
/** In real time, where it does no harm to be early. */
const AT_ONCE = '50'

describe('EDGE_BACKEND_CONNECT_TIMEOUT_MS', () => {
  const time = heldTime()
  const env = { EDGE_BACKEND_CONNECT_TIMEOUT_MS: LIMIT }

  test('does not run on once it is there: a slow answer is no slow connection', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend, { env: { ...env, EDGE_BACKEND_HEADERS_TIMEOUT_MS: String(4 * LIMIT_MS) } })
    const slow = asking(edge, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na')
    await until(() => backend.received.endsWith('\r\n\r\na'))
    time.pass(2 * LIMIT_MS)
    backend.connections[0]!.socket.write(OK)
    await slow.sees('ok')
  })
})

describe('EDGE_BACKEND_HEADERS_TIMEOUT_MS', () => {
  const time = heldTime()
  const env = { EDGE_BACKEND_HEADERS_TIMEOUT_MS: LIMIT, EDGE_BACKEND_IDLE_TIMEOUT_MS: NEVER }

  test('does not cut a body that takes longer', async () => {
    const backend = await RawBackend.saying(HALF)
    const edge = await proxying(backend, { env })
    const client = asking(edge, GET)
    await client.sees('half')
    time.pass(2 * LIMIT_MS)
    backend.connections[0]!.socket.write('whole')
    await client.sees('halfwhole')
  })

  test('does not run against connections at rest', async () => {
    // Two at once: the one that is not used again rests, in either time.
    const open: (() => void)[] = []
    const backend = await HttpBackend.start((_req, res) => void open.push(() => res.end()))
    const edge = await proxying(backend, { env: { ...env, EDGE_BACKEND_HEADERS_TIMEOUT_MS: '1000' } })
    const both = [edge.get('/'), edge.get('/')]
    await until(() => open.length === 2)
    for (const end of open.splice(0)) end()
    await Promise.all(both)
    // Longer than the limit, and shorter than connections rest.
    time.pass(3000)
    const third = edge.get('/')
    await until(() => open.length === 1)
    open[0]!()
    expect([(await third).status, backend.connections]).toEqual([200, 2])
  })
})

describe('EDGE_BACKEND_IDLE_TIMEOUT_MS', () => {
  const time = heldTime()
  const env = { EDGE_BACKEND_HEADERS_TIMEOUT_MS: NEVER, EDGE_BACKEND_IDLE_TIMEOUT_MS: LIMIT }

  test('interim answers do not stand for silence of the head', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 102 Processing\r\n\r\n')
    const edge = await proxying(backend, { env })
    const client = asking(edge, GET)
    await client.sees(' 102 ')
    time.pass(2 * LIMIT_MS)
    backend.connections[0]!.socket.write(OK)
    await client.sees('ok')
  })

  test('an upload that is slow and never stops for so long arrives', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend, { env })
    const client = asking(edge, UPLOAD)
    await until(() => backend.heads === 1)
    for (const piece of 'whole') {
      time.pass(PAUSE_MS)
      client.send(`1\r\n${piece}\r\n`)
      await until(() => backend.received.includes(`\n${piece}\r\n`))
    }
    client.send('0\r\n\r\n')
    await until(() => backend.received.endsWith('\r\n0\r\n\r\n'))
    backend.connections[0]!.socket.write(OK)
    expect((await client.next()).status).toBe(200)
  })

  test('a client that takes nothing of its answer is cut, and the backend with it', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\n\r\n')
    const edge = await proxying(backend, { env })
    const client = asking(edge, GET)
    await client.sees('\r\n\r\n')
    client.socket.pause()
    await writeUntilStuck(backend.connections[0]!.socket)
    await until(() => {
      time.pass(TOO_LONG_MS)
      return backend.openConnections === 0
    })
    await until(async () => (await edge.metric('edge_proxy_open_requests')) === 0)
    expect(await edge.metric('edge_backend_failures_total{reason="backend_timeout"}')).toBe(0)
  })

  test('a client that takes its answer slowly and never stops for so long is not cut', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\n\r\n')
    const edge = await proxying(backend, { env })
    const client = asking(edge, GET)
    await client.sees('\r\n\r\n')
    const { socket } = backend.connections[0]!
    let read = 0
    client.socket.removeAllListeners('data').on('data', (chunk: Buffer) => {
      read += chunk.length
    })
    client.socket.pause()
    for (let round = 0; round < 4; round++) {
      const held = await writeUntilStuck(socket)
      // Short of what is on its way: something waits all the time.
      const before = read
      time.pass(PAUSE_MS)
      client.socket.resume()
      await until(() => read > before + held / 2)
      client.socket.pause()
    }
    expect([client.isClosed, backend.openConnections]).toEqual([false, 1])
  })

  test('a WebSocket may be silent for as long as it likes', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
    const edge = await proxying(backend, { env: { ...env, EDGE_BACKEND_HEADERS_TIMEOUT_MS: LIMIT, EDGE_KEEPALIVE_MS: LIMIT } })
    const client = asking(edge, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    await client.sees(' 101 ')
    time.pass(10 * LIMIT_MS)
    backend.connections[0]!.socket.write('still here')
    await client.sees('still here')
  })
})

// In real time: `node:http` has timers of its own, which read requests where EDGE_PROXY_WIRE=node.
describe('a client that stops in the middle of its upload', () => {
  const env = { EDGE_BACKEND_HEADERS_TIMEOUT_MS: NEVER, EDGE_BACKEND_IDLE_TIMEOUT_MS: AT_ONCE }
  const HALF_UPLOAD = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf'

  test('nor where a token budget waits for it: nothing of it reaches the backend', async () => {
    const backend = await HttpBackend.start()
    const rules = [llmRule('t', [], { tokens_per_minute: 1000 })]
    const edge = await proxying(backend, { env, bundle: bundle(1, policy('p', { rules })) })
    await asking(edge, HALF_UPLOAD).closed()
    expect(backend.connections).toBe(0)
  })
})

describe('between requests', () => {
  const env = { EDGE_KEEPALIVE_MS: '100', EDGE_HEADERS_TIMEOUT_MS: '60000', EDGE_REQUEST_TIMEOUT_MS: '60000' }

  test('a request that takes longer than that is not idle', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend, { env })
    const busy = asking(edge, GET)
    await until(() => backend.heads === 1)
    await asking(edge, 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n').closed()
    backend.connections[0]!.socket.write(OK)
    expect((await busy.next()).body).toBe('ok')
  })
})

function asking(edge: Edge, bytes: string): RawClient {
  const client = RawClient.connect(edge.port)
  client.send(bytes)
  return client
}
