import { describe, expect, test } from 'vitest'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { expectDownloaded, expectUploaded } from '../../support/proxy/bodies.ts'
import { proxying, RawClient, writeUntilStuck } from '../../support/proxy/proxy.ts'
import { until } from '../../support/until.ts'

const MEGABYTE = 1 << 20

describe('an upload', () => {
  test.each([1, 2, 65_535, 300_000, 2 * MEGABYTE])('of %i bytes arrives as it was sent, by its length', (size) =>
    expectUploaded(size, 'by its length'),
  )

  test.each([0, 1, 2, 2 * MEGABYTE])('of %i bytes arrives as it was sent, in chunks', (size) => expectUploaded(size, 'in chunks'))

  test('waits while the backend does not read, and goes on when it does', async () => {
    const backend = await RawBackend.start(({ socket }) => void socket.pause())
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1000000000000\r\n\r\n')
    await until(() => backend.heads === 1)
    const sent = await writeUntilStuck(client.socket)
    const { socket } = backend.connections[0]!
    let received = 0
    socket.removeAllListeners('data').on('data', (chunk: Buffer) => {
      received += chunk.length
    })
    socket.resume()
    await until(() => received >= sent - MEGABYTE && client.socket.writableLength === 0)
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    expect((await client.next()).status).toBe(200)
  })
})

describe('a download', () => {
  test.each([0, 1, 300_000, 2 * MEGABYTE])('of %i bytes arrives as it was sent, by its length and in chunks', expectDownloaded)

  test('in a byte at a time arrives the same', async () => {
    const answer =
      'HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5;x\r\nhello\r\n7\r\n, world\r\n0\r\nX-T: 1\r\n\r\n'
    const backend = await RawBackend.start(async ({ socket }) => {
      for (const byte of answer) await new Promise((resolve) => socket.write(byte, resolve))
    })
    const edge = await proxying(backend)
    const response = await fetch(`http://127.0.0.1:${edge.port}/`)
    expect([response.headers.get('x-a'), await response.text()]).toEqual(['b', 'hello, world'])
  })

  test('waits while the client does not read, and goes on when it does', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n')
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.socket.pause()
    client.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    await until(() => backend.heads === 1)
    const { socket } = backend.connections[0]!
    const given = await writeUntilStuck(socket)
    await client.readsMoreThan(given)
    // Not before: half a response is broken off with a reset, which drops what is still on its way.
    socket.end()
    await client.closed()
  })

  test('of many pieces to a slow client piles no listeners up', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error): void => void warnings.push(warning)
    process.on('warning', onWarning)
    const backend = await HttpBackend.start(async (_req, res) => {
      for (let i = 0; i < 200; i++) {
        if (!res.write(Buffer.alloc(50_000))) await new Promise((resolve) => res.once('drain', resolve))
      }
      res.end()
    })
    const edge = await proxying(backend)
    const response = await fetch(`http://127.0.0.1:${edge.port}/`)
    let seen = 0
    for await (const chunk of response.body!) seen += chunk.length
    process.off('warning', onWarning)
    expect([seen, warnings]).toEqual([10_000_000, []])
  })
})
