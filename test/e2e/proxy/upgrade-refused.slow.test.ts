import { describe, expect, test } from 'vitest'
import { RawBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient, readAnswer, writeUntilStuck } from '../../support/proxy/proxy.ts'
import { heldTime } from '../../support/service/held-time.ts'
import { until } from '../../support/until.ts'

const WEB_SOCKET = 'GET /w HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'

/** Its end is that of the connection. */
const ENDLESS = 'HTTP/1.1 403 Forbidden\r\n\r\n'

describe('a WebSocket that the backend refuses', () => {
  // What a client still sends is read for a second, and no longer.
  const time = heldTime()

  test.each([
    ['by its length', 400_000],
    ['in chunks', 400_000],
    ['by its length', 4 << 20],
  ] as const)('gets its whole answer %s: %i bytes', async (framing, size) => {
    const edge = await proxying(await refusing(framing, size))
    const client = RawClient.connect(edge.port)
    client.send(WEB_SOCKET)
    const received = await client.closed()
    expect(readAnswer(received).status).toBe(403)
    expect(received.split('x').length - 1).toBe(size)
  })

  test('holds the backend back while it does not read, and gets the rest when it does', async () => {
    const backend = await RawBackend.saying(ENDLESS)
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.socket.pause()
    client.send(WEB_SOCKET)
    await until(() => backend.heads === 1)
    const { socket } = backend.connections[0]!
    const size = await writeUntilStuck(socket)
    await client.readsMoreThan(size)
    socket.end()
    await client.closed()
  })

  test('is cut when it takes nothing for the idle timeout', async () => {
    const backend = await RawBackend.saying(ENDLESS)
    const edge = await proxying(backend, { env: { EDGE_BACKEND_IDLE_TIMEOUT_MS: '60000' } })
    const client = RawClient.connect(edge.port)
    client.socket.pause()
    client.send(WEB_SOCKET)
    await until(() => backend.heads === 1)
    await writeUntilStuck(backend.connections[0]!.socket)
    await until(() => {
      time.pass(90_000)
      return backend.openConnections === 0
    })
    client.socket.resume()
    await client.closed()
    await until(async () => (await edge.metric('edge_proxy_open_requests')) === 0)
    expect(await edge.metric('edge_proxy_client_aborts_total')).toBe(1)
  })

  test('and that has sent much already: what it sent is thrown away, and the answer arrives', async () => {
    const edge = await proxying(await refusing('by its length', 400_000))
    const client = RawClient.connect(edge.port)
    client.socket.pause()
    client.send(WEB_SOCKET)
    // More than the system's buffers hold: some of it is read only to be thrown away.
    client.send(Buffer.alloc(12_000_000))
    await until(() => client.socket.writableLength === 0 || client.isClosed)
    client.socket.resume()
    const received = await client.closed()
    expect([client.errorCode, received.split('x').length - 1]).toEqual([undefined, 400_000])
  })
})

function refusing(framing: 'by its length' | 'in chunks', size: number): Promise<RawBackend> {
  return RawBackend.start(({ socket, heads }) => {
    if (heads > 1) return
    const isChunked = framing === 'in chunks'
    socket.write(`HTTP/1.1 403 Forbidden\r\n${isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${size}`}\r\n\r\n`)
    if (isChunked) socket.write(`${size.toString(16)}\r\n`)
    socket.write(Buffer.alloc(size, 'x'))
    if (isChunked) socket.write('\r\n0\r\n\r\n')
  })
}
