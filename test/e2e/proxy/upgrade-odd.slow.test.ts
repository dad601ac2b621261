import { describe, expect, onTestFinished, test } from 'vitest'
import { RawBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { until } from '../../support/until.ts'

const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const ASKS_FOR_MORE = 'GET / HTTP/1.1\r\nHost: a\r\nExpect: foo\r\n\r\n'
const AMBIGUOUS = 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'
const PLAIN = 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'
const WEB_SOCKET = 'GET /w HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
const H2C = 'GET /w HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n'
const CONNECT = 'CONNECT b:80 HTTP/1.1\r\nHost: b:80\r\n\r\n'

describe('another protocol in one packet with a request before it', () => {
  const befores = { 'an odd expectation': ASKS_FOR_MORE, 'an ambiguous one': AMBIGUOUS, 'an ordinary one': PLAIN }
  const behinds = { 'a WebSocket': WEB_SOCKET, h2c: H2C, CONNECT }
  const rows = Object.entries(befores).flatMap(([before, first]) =>
    Object.entries(behinds).map(([behind, second]) => [behind, before, first + second] as const),
  )

  test.each(rows)('%s behind %s: the service goes on, and nothing stays open', async (_behind, _before, bytes) => {
    const backend = await RawBackend.saying(OK)
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(bytes)
    client.socket.end()
    await client.closed()
    expect((await ask(edge.port, 'GET', '/livez')).status).toBe(200)
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
    expect(await edge.metric('edge_proxy_open_tunnels')).toBe(0)
  })
})

test.each(['Upgrade\t', 'Upgrade\t, x', '\xa0Upgrade', 'Upgrade\xa0'])(
  'a WebSocket that Node does not take for one is none: Connection: %j',
  async (connection) => {
    const backend = await RawBackend.saying(SWITCHED)
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(`GET /w HTTP/1.1\r\nHost: a\r\nConnection: ${connection}\r\nUpgrade: websocket\r\n\r\n`)
    await client.sees('\r\n\r\n')
    // Either it was a WebSocket after all, or the backend's 101 was unasked for.
    const isTunnel = client.received.startsWith('HTTP/1.1 101')
    expect(await edge.metric('edge_proxy_open_tunnels')).toBe(isTunnel ? 1 : 0)
    if (!isTunnel) expect(client.received).toContain('backend_invalid')
    client.socket.destroy()
    expect((await ask(edge.port, 'GET', '/livez')).status).toBe(200)
  },
)

test('a client that asks for a protocol again and again has one connection, and is listened to once', async () => {
  const warnings: string[] = []
  const note = ({ name }: Error): void => void warnings.push(name)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  const backend = await RawBackend.saying(OK)
  const edge = await proxying(backend)
  const client = RawClient.connect(edge.port)
  for (let i = 0; i < 200; i++) {
    client.send(H2C)
    expect((await client.next()).status).toBe(200)
  }
  // The other is the one on which this is asked.
  expect(await edge.metric('edge_worker_connections{worker="1"}')).toBe(2)
  expect(warnings).not.toContain('MaxListenersExceededWarning')
  client.socket.destroy()
  await until(async () => (await edge.metric('edge_worker_connections{worker="1"}')) === 1)
})
