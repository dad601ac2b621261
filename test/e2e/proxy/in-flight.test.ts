import { expect, test } from 'vitest'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { RawBackend, type RawConnection } from '../../support/proxy/backend.ts'
import { proxyEnv, proxying, RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'

/** What happens to the service in the middle of requests in each of their states. Shutdowns have a file of their own. */

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const HALF_STREAM = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n'
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'

test('a new bundle changes nothing for requests in flight', async () => {
  const backend = await newBackend()
  const edge = await proxying(backend)
  const { waiting, uploading, streaming, tunnel } = await inFlight(edge.port, backend)
  expect(await offer(edge, bundle(2))).toMatchObject({ event: 'bundle_applied' })

  connectionOf(backend, '/wait').socket.write(OK)
  expect((await waiting.next()).body).toBe('ok')
  uploading.send('rest')
  await until(() => connectionOf(backend, '/upload').received.endsWith('halfrest'))
  connectionOf(backend, '/upload').socket.write(OK)
  expect((await uploading.next()).body).toBe('ok')
  connectionOf(backend, '/stream').socket.write('3\r\ntwo\r\n0\r\n\r\n')
  await streaming.sees('3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n')
  tunnel.send('ping')
  await until(() => connectionOf(backend, '/tunnel').received.endsWith('ping'))
  connectionOf(backend, '/tunnel').socket.write('pong')
  await tunnel.sees('pong')
})

test('a worker that dies takes its own requests with it, on both sides, and leaves room for others', async () => {
  const backend = await newBackend()
  // As many as are in flight: the next ones need the places of the dead.
  const env = { ...proxyEnv(backend.url), EDGE_BACKEND_MAX_CONNECTIONS: '4' }
  const mortal = await mortalEdge(2, { bundle: bundle(1), env })
  const { waiting, uploading, streaming, tunnel } = await inFlight(mortal.port, backend)
  const clients = [waiting, uploading, streaming, tunnel]
  await until(async () => (await metricsOf(mortal.port)).value('edge_proxy_open_tunnels') === 1)
  mortal.age()
  for (const [i, worker] of [1, 2].entries()) {
    await mortal.host.terminate(worker)
    await mortal.untilReplaced(i + 1)
  }

  await until(() => clients.every(({ isClosed }) => isClosed) && backend.openConnections === 0)
  expect([waiting, uploading].map(({ received }) => statusesIn(received))).toEqual([[], []])
  expect(streaming.received).not.toContain('\r\n0\r\n')
  const metrics = await metricsOf(mortal.port)
  const gauges = ['edge_proxy_open_requests', 'edge_proxy_open_tunnels', 'edge_backend_connections', 'edge_backend_queue_requests']
  expect(gauges.map((gauge) => metrics.value(gauge))).toEqual([0, 0, 0, 0])
  const answers = await Promise.all(Array.from({ length: 8 }, () => ask(mortal.port, 'GET', '/')))
  expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200))
}, 60_000)

interface InFlight {
  readonly waiting: RawClient
  readonly uploading: RawClient
  readonly streaming: RawClient
  readonly tunnel: RawClient
}

/** One request that waits for its response, one in the middle of its body, one in the middle of its response, and a WebSocket. */
async function inFlight(port: number, backend: RawBackend): Promise<InFlight> {
  const send = (bytes: string): RawClient => {
    const client = RawClient.connect(port)
    client.send(bytes)
    return client
  }
  const waiting = send('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n')
  const uploading = send('POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf')
  const streaming = send('GET /stream HTTP/1.1\r\nHost: a\r\n\r\n')
  const tunnel = send('GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await streaming.sees('one')
  await tunnel.sees(' 101 ')
  await until(() => backend.heads === 4 && connectionOf(backend, '/upload').received.endsWith('half'))
  return { waiting, uploading, streaming, tunnel }
}

function newBackend(): Promise<RawBackend> {
  return RawBackend.start(({ socket, received }) => {
    const [, path] = / (\/\w*) /.exec(received)!
    if (path === '/') socket.write(OK)
    else if (path === '/stream') socket.write(HALF_STREAM)
    else if (path === '/tunnel') socket.write(SWITCHED)
  })
}

function connectionOf(backend: RawBackend, path: string): RawConnection {
  return backend.connections.find(({ received }) => received.includes(` ${path} `))!
}
