import { describe, expect, test } from 'vitest'
import { RawBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient, readAnswer } from '../../support/proxy/proxy.ts'
import { until, untilStill } from '../../support/until.ts'

const WEB_SOCKET = 'GET /w HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'

describe('a WebSocket that the backend refuses', () => {
  test.each([
    ['by its length', 400_000],
    ['in chunks', 400_000],
    ['by its length', 8 << 20],
  ] as const)('gets its whole answer %s: %i bytes', async (framing, size) => {
    const edge = await proxying(await refusing(framing, size))
    const client = RawClient.connect(edge.port)
    client.send(WEB_SOCKET)
    const received = await client.closed()
    expect(readAnswer(received).status).toBe(403)
    expect(received.split('x').length - 1).toBe(size)
  })

  test('holds the backend back while it does not read, and gets the rest when it does', async () => {
    const size = 48 << 20
    const backend = await refusing('by its length', size)
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.socket.pause()
    client.send(WEB_SOCKET)
    await until(() => backend.heads === 1)
    const { socket } = backend.connections[0]!
    await untilStill(() => socket.writableLength)
    expect(socket.writableLength).toBeGreaterThan(size / 2)
    expect(await client.countsRest()).toBeGreaterThan(size)
  })

  test('is cut when it takes nothing for the idle timeout', async () => {
    const backend = await refusing('by its length', 48 << 20)
    const edge = await proxying(backend, { env: { EDGE_BACKEND_IDLE_TIMEOUT_MS: '300' } })
    const client = RawClient.connect(edge.port)
    client.socket.pause()
    client.send(WEB_SOCKET)
    await until(() => backend.heads === 1 && backend.openConnections === 0)
    client.socket.resume()
    await client.closed()
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
    expect(await edge.metric('edge_proxy_client_aborts_total')).toBe(1)
  })

  test('and that has sent much already: what it sent is thrown away, and the answer arrives', async () => {
    const edge = await proxying(await refusing('by its length', 400_000))
    const client = RawClient.connect(edge.port)
    client.socket.pause()
    client.send(WEB_SOCKET)
    client.send(Buffer.alloc(20_000_000))
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
