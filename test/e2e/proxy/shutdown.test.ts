import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { proxyOptions, RawClient, readAnswer, servingProxy, statusesIn, valuesOf } from '../../support/proxy/proxy.ts'
import { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { portOf } from '../../support/service/port-of.ts'
import { until } from '../../support/until.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const WEBSOCKET = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n'
/** Longer than any test. */
const LONG = '600000'

describe('when the proxy stops', () => {
  test('a request that waits for the backend gets its answer first, then the process ends with 0', async () => {
    const backend = await RawBackend.start(() => {})
    const cli = await servingProxy(backend, { EDGE_SHUTDOWN_MS: LONG })
    const client = RawClient.connect(cli.port)
    client.send(GET)
    await until(() => backend.heads === 1)
    cli.process.kill('SIGTERM')
    await until(() => isClosedPort(cli.port))
    expect(cli.process.exitCode).toBeNull()
    backend.connections[0]!.socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    expect(await cli.exited).toBe(0)
    const answer = readAnswer(await client.closed())
    expect([answer.status, answer.body, client.errorCode]).toEqual([200, 'ok', undefined])
    expect(valuesOf(answer, 'Connection')).toEqual(['close'])
  })

  test('of a pipeline, the request that is under way is answered, and the rest is never begun', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await start(backend, { EDGE_SHUTDOWN_MS: LONG })
    const client = RawClient.connect(edge.port)
    client.send(GET.repeat(3))
    await until(() => backend.heads === 1)
    const stopped = edge.stop()
    await until(() => isClosedPort(edge.port))
    backend.connections[0]!.socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    await stopped
    expect([statusesIn(await client.closed()), client.received.match(/Connection: \S+/g)]).toEqual([[200], ['Connection: close']])
    expect(backend.heads).toBe(1)
  })

  test('a response that promised to keep its connection is followed by one more of a pipeline, then by the end', async () => {
    const backend = await RawBackend.start(({ socket }, index) => void socket.write(index === 0 ? CHUNKED : ''))
    const edge = await start(backend, { EDGE_SHUTDOWN_MS: LONG })
    const client = RawClient.connect(edge.port)
    client.send(GET.repeat(3))
    await client.sees('one')
    const stopped = edge.stop()
    await until(() => isClosedPort(edge.port))
    backend.connections[0]!.socket.write('0\r\n\r\n')
    await until(() => backend.heads === 2)
    backend.connections[0]!.socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    await stopped
    expect([statusesIn(await client.closed()), client.received.match(/Connection: \S+/g)]).toEqual([
      [200, 200],
      ['Connection: keep-alive', 'Connection: close'],
    ])
    expect(backend.heads).toBe(2)
  })

  test('a stream and an upload go on to their end', async () => {
    const backend = await RawBackend.start(({ socket }, index) => void socket.write(index === 0 ? CHUNKED : ''))
    const edge = await start(backend, { EDGE_SHUTDOWN_MS: LONG })
    const reader = RawClient.connect(edge.port)
    reader.send(GET)
    await reader.sees('one')
    const writer = RawClient.connect(edge.port)
    writer.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf')
    await until(() => backend.received.endsWith('half'))
    const stopped = edge.stop()
    await until(() => isClosedPort(edge.port))
    const [streaming, receiving] = backend.connections
    streaming!.socket.write('3\r\ntwo\r\n0\r\n\r\n')
    await reader.closed()
    expect([reader.received.endsWith('3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n'), reader.errorCode]).toEqual([true, undefined])
    expect(edge.isStopped).toBe(false)
    writer.send('rest')
    await until(() => receiving!.received.endsWith('halfrest'))
    receiving!.socket.write('HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n')
    expect(statusesIn(await writer.closed())).toEqual([201])
    await stopped
  })

  test('what is still open after EDGE_SHUTDOWN_MS is cut, on both sides', async () => {
    const backend = await RawBackend.start(({ socket }, index) => void socket.write(['', CHUNKED, SWITCHED][index]!))
    const edge = await start(backend, { EDGE_SHUTDOWN_MS: '300' })
    const waiting = RawClient.connect(edge.port)
    waiting.send(GET)
    await until(() => backend.heads === 1)
    const streaming = RawClient.connect(edge.port)
    streaming.send(GET)
    await streaming.sees('one')
    const socket = RawClient.connect(edge.port)
    socket.send(WEBSOCKET)
    await socket.sees(' 101 ')
    await edge.stop()
    await until(() => waiting.isClosed && streaming.isClosed && socket.isClosed && backend.openConnections === 0)
    expect(streaming.received).not.toContain('\r\n0\r\n')
  })

  test('a WebSocket goes on until one of its sides ends it', async () => {
    const backend = await RawBackend.saying(SWITCHED)
    const edge = await start(backend, { EDGE_SHUTDOWN_MS: LONG })
    const client = RawClient.connect(edge.port)
    client.send(WEBSOCKET)
    await client.sees(' 101 ')
    const stopped = edge.stop()
    await until(() => isClosedPort(edge.port))
    client.send('still here')
    await until(() => backend.received.endsWith('still here'))
    expect(edge.isStopped).toBe(false)
    client.socket.end()
    await stopped
  })

  test('idle connections on either side hold nothing up', async () => {
    const backend = await HttpBackend.start()
    const edge = await start(backend, { EDGE_SHUTDOWN_MS: LONG })
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await client.sees('hello')
    expect(backend.openConnections).toBe(1)
    await edge.stop()
    await until(() => client.isClosed && backend.openConnections === 0)
  })

  test('nor does a client that talked on after the answer to CONNECT, to a WebSocket or to a bad request', async () => {
    const backend = await HttpBackend.start()
    const edge = await start(backend, { EDGE_SHUTDOWN_MS: LONG })
    for (const [what, bytes, status] of [
      ['CONNECT', 'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n', 405],
      ['a refused WebSocket', WEBSOCKET.replace('Host: a', 'Host: a\r\nHost: b'), 400],
      ['a WebSocket that the backend does not want', WEBSOCKET, 200],
      ['a malformed request', 'nonsense\r\n\r\n', 400],
      ['a refused request', 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n', 400],
    ] as const) {
      const client = connect({ port: edge.port, host: '127.0.0.1', allowHalfOpen: true })
      onTestFinished(() => void client.destroy())
      let received = ''
      client.on('data', (chunk: Buffer) => {
        received += chunk.toString('latin1')
      })
      client.on('error', () => {}) // it may be cut
      client.write(bytes)
      await Promise.race([once(client, 'end'), once(client, 'close')])
      expect(statusesIn(received), what).toEqual([status])
      if (client.writable) client.end('more')
      await until(() => client.destroyed)
    }
    await edge.stop()
  })

  test('the admin port answers until the last stream has ended', async () => {
    const backend = await RawBackend.saying(CHUNKED)
    const edge = await start(backend, { EDGE_SHUTDOWN_MS: LONG, EDGE_ADMIN_PORT: '0' })
    const admin = edge.adminPort!
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await client.sees('one')
    const stopped = edge.stop()
    await until(() => isClosedPort(edge.port))
    expect((await ask(admin, 'GET', '/readyz')).status).toBe(503)
    expect((await ask(admin, 'GET', '/metrics')).body).toContain('edge_proxy_open_requests 1\n')
    backend.connections[0]!.socket.write('0\r\n\r\n')
    await stopped
  })
})

interface StoppingEdge {
  readonly port: number
  readonly adminPort: number | undefined
  readonly isStopped: boolean
  /** Once, however often it is asked for. */
  stop(): Promise<void>
}

/** The proxy in this process. That the end of a process follows from `stop` is what the tests of processes show: one here, the others in `shutdown.slow.test.ts`. */
async function start(backend: { readonly url: string }, env: Readonly<Record<string, string>>): Promise<StoppingEdge> {
  const edge = await Edge.start(proxyOptions(backend, { env }))
  let [isStopped, stopped]: [isStopped: boolean, stopped: Promise<void> | undefined] = [false, undefined]
  const stop = (): Promise<void> => {
    stopped ??= edge.stop().then(() => {
      isStopped = true
    })
    return stopped
  }
  onTestFinished(stop)
  return {
    port: edge.port,
    adminPort: portOf(edge.service.addresses.get('admin')),
    get isStopped() {
      return isStopped
    },
    stop,
  }
}

/** Connects and asks nothing: a question would go to the backend, and might never be answered. */
function isClosedPort(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(false)
    })
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED'))
  })
}
