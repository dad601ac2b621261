import { describe, test } from 'vitest'
import { expectAborted } from '../../support/proxy/aborted-call.ts'
import { RawBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient, writeUntilStuck } from '../../support/proxy/proxy.ts'
import { until } from '../../support/until.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

/** `destroy` is what a process does that ends or gives up: its kernel says FIN; `resetAndDestroy` says RST. */
const WAYS = ['destroy', 'resetAndDestroy'] as const

describe.each(WAYS)('a client that goes away (%s)', (leave) => {
  test('when it has uploaded all and waits', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody')
    await until(() => backend.received.endsWith('body'))
    client.socket[leave]()
    await expectAborted(edge, backend)
  })

  test('in the middle of an answer that it did not read', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\n\r\n')
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.socket.pause()
    client.send(GET)
    await until(() => backend.heads === 1)
    await writeUntilStuck(backend.connections[0]!.socket)
    client.socket[leave]()
    await expectAborted(edge, backend)
  })

  test('while the backend thinks about a WebSocket', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    await until(() => backend.heads === 1)
    client.socket[leave]()
    await expectAborted(edge, backend)
  })

  test('while the backend thinks about a WebSocket on which it has spoken already', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    await until(() => backend.heads === 1)
    client.send('more')
    await edge.get('/livez')
    client.socket[leave]()
    await expectAborted(edge, backend)
  })

  test('while a connection to the backend is made', async () => {
    const backend = await RawBackend.start(() => {})
    // A TLS handshake that nobody answers.
    const edge = await proxying({ url: backend.url.replace('http:', 'https:') })
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await until(() => backend.connections.length === 1)
    client.socket[leave]()
    await expectAborted(edge, backend)
  })
})
