import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { bundle } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { PROXY_WIRES } from '../../support/run/proxy-wire.ts'
import type { Edge } from '../../support/service/edge.ts'
import { running } from '../../support/service/running.ts'
import { RecordClient } from '../../support/tls/record-client.ts'
import { TlsClient } from '../../support/tls/tls-client.ts'
import { ownPair, QUESTION, tlsEnv } from '../../support/tls/tls-edge.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
/** The alert with which a side says that it closes the connection. */
const CLOSE_NOTIFY = 0
/** Longer than any test. */
const LONG = '600000'

/** What answers requests, and a request that it answers. */
const SERVERS: readonly (readonly [what: string, request: string, start: (env: Readonly<Record<string, string>>) => Promise<Edge>])[] = [
  ['decision_service', QUESTION, async (env) => running({ bundle: bundle(1), env: { ...tlsEnv(await ownPair()), ...env } })],
  [
    "decision_service, with node:http's parser",
    QUESTION.replace('\r\n\r\n', '\r\nContent-Length: 1\r\n\r\na'),
    async (env) => running({ bundle: bundle(1), env: { ...tlsEnv(await ownPair()), ...env } }),
  ],
  ...PROXY_WIRES.map((wire) => {
    const start = async (env: Readonly<Record<string, string>>): Promise<Edge> =>
      proxying(await HttpBackend.start(), { env: { ...tlsEnv(await ownPair()), EDGE_PROXY_WIRE: wire, ...env } })
    return [`reverse_proxy on the wire ${wire}`, GET, start] as const
  }),
]

describe.each(SERVERS)('%s says goodbye (close_notify) on a connection that it closes', (_what, request, start) => {
  async function answered(edge: Edge): Promise<RecordClient> {
    const client = await RecordClient.connected(edge.port)
    client.send(request)
    await client.until(() => client.received.includes('\r\n\r\n'))
    expect(client.received).toMatch(/^HTTP\/1.1 200 /)
    return client
  }

  test('because it was idle for too long', async () => {
    const client = await answered(await start({ EDGE_KEEPALIVE_MS: '50' }))
    await client.until(() => client.isClosed)
    expect(client.alerts).toEqual([CLOSE_NOTIFY])
  })

  test('because it stops, whether or not there was a request', async () => {
    const edge = await start({ EDGE_KEEPALIVE_MS: LONG })
    const [idle, silent] = [await answered(edge), await RecordClient.connected(edge.port)]
    await edge.stop()
    await Promise.all([idle, silent].map((client) => client.until(() => client.isClosed)))
    expect([idle.alerts, silent.alerts]).toEqual([[CLOSE_NOTIFY], [CLOSE_NOTIFY]])
  })

  test('because its client asks for that', async () => {
    const edge = await start({ EDGE_KEEPALIVE_MS: LONG })
    const client = await RecordClient.connected(edge.port)
    client.send(request.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
    await client.until(() => client.isClosed)
    expect([client.received.slice(0, 13), client.alerts]).toEqual(['HTTP/1.1 200 ', [CLOSE_NOTIFY]])
  })
})

describe.each(PROXY_WIRES)('reverse_proxy on the wire %s', (wire) => {
  test('answers pipelines of any length in order, and none of their bytes twice', async () => {
    const backend = await HttpBackend.start((req, res) => void res.end(req.url))
    const edge = await proxying(backend, { env: { ...tlsEnv(await ownPair()), EDGE_PROXY_WIRE: wire } })
    const client = await TlsClient.connected(edge.port)
    const paths = Array.from({ length: 300 }, (_, i) => `/${i}-${'x'.repeat(200)}`)
    client.send(paths.map((path) => GET.replace('/', path)).join(''))
    await until(() => client.isClosed || client.received.endsWith(paths.at(-1)!))
    expect(client.received.match(/^\/\S+?(?=HTTP|$)/gm)).toEqual(paths)
  })

  test('carries a WebSocket both ways', async () => {
    const backend = await HttpBackend.start()
    const server = new WebSocketServer({ server: backend.server })
    server.on('connection', (socket) => void socket.on('message', (data: Buffer, isBinary) => socket.send(data, { binary: isBinary })))
    const edge = await proxying(backend, { env: { ...tlsEnv(await ownPair()), EDGE_PROXY_WIRE: wire } })
    const client = new WebSocket(`wss://127.0.0.1:${edge.port}/`, { rejectUnauthorized: false })
    onTestFinished(() => client.terminate())
    const echoed: Buffer[] = []
    client.on('message', (data: Buffer) => echoed.push(data))
    await until(() => client.readyState === WebSocket.OPEN)
    const messages = [
      Buffer.from('hello'),
      Buffer.alloc(0),
      Buffer.alloc(1 << 20, 'x'),
      ...Array.from({ length: 50 }, (_, i) => Buffer.of(i)),
    ]
    for (const message of messages) client.send(message)
    await until(() => echoed.length === messages.length)
    expect(Buffer.concat(echoed).equals(Buffer.concat(messages))).toBe(true)
    client.close(4001, 'goodbye')
    await until(() => client.readyState === WebSocket.CLOSED)
  })

  test('lets a stream go on to its end when it stops, and says goodbye only then', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n')
    const edge = await proxying(backend, { env: { ...tlsEnv(await ownPair()), EDGE_PROXY_WIRE: wire, EDGE_SHUTDOWN_MS: LONG } })
    const stream = await RecordClient.connected(edge.port)
    stream.send(GET)
    await stream.until(() => stream.received.includes('one'))
    const idle = await RecordClient.connected(edge.port)
    const stopped = edge.stop()
    await idle.until(() => idle.isClosed)
    expect([stream.isClosed, stream.alerts]).toEqual([false, []])
    backend.connections[0]!.socket.write('3\r\ntwo\r\n0\r\n\r\n')
    await stopped
    await stream.until(() => stream.isClosed)
    expect([stream.received.endsWith('3\r\ntwo\r\n0\r\n\r\n'), stream.alerts]).toEqual([true, [CLOSE_NOTIFY]])
  })

  test('cuts a stream that outlasts EDGE_SHUTDOWN_MS, which nobody can take for a whole one', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n')
    const edge = await proxying(backend, { env: { ...tlsEnv(await ownPair()), EDGE_PROXY_WIRE: wire, EDGE_SHUTDOWN_MS: '100' } })
    const stream = await TlsClient.connected(edge.port)
    stream.send(GET)
    await until(() => stream.received.includes('one'))
    await edge.stop()
    expect(await stream.closed()).not.toContain('\r\n0\r\n')
  })
})

test('a worker that replaces a dead one serves the certificate of now, while connections of others go on', async () => {
  const pair = await ownPair('DNS:now.test')
  const mortal = await mortalEdge(2, { bundle: bundle(1), env: tlsEnv(pair) })
  const clients: TlsClient[] = []
  for (let i = 0; i < 20; i++) clients.push(await TlsClient.connected(mortal.port))
  mortal.age()
  await mortal.host.terminate(1)
  await mortal.untilReplaced()
  const answers = await Promise.all(clients.map((client) => client.ask(QUESTION)))
  // Each connection was of the dead worker and is closed, or works as before.
  expect(answers.every((answer, i) => (clients[i]!.isClosed ? answer === '' : answer.startsWith('HTTP/1.1 200 ')))).toBe(true)
  expect(clients.some(({ isClosed }) => !isClosed)).toBe(true)
  const { session } = clients.find(({ isClosed }) => !isClosed)!
  for (let i = 0; i < 20; i++) {
    const client = await TlsClient.connected(mortal.port, { session: session! })
    expect(await client.ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
    // The new worker has the same ticket keys.
    expect(client.socket.isSessionReused()).toBe(true)
    expect((await TlsClient.connected(mortal.port)).names).toBe('DNS:now.test')
  }
})
