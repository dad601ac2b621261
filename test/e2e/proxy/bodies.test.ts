import { createHash, randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, askRaw, proxying, RawClient, readAnswer, statusesIn, valuesOf, writeUntilStuck } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { until } from '../../support/until.ts'

const MEGABYTE = 1 << 20

describe('an upload', () => {
  test.each([0, 1, 2, 65_535, 65_536, 300_000, 2 * MEGABYTE])('of %i bytes arrives as it was sent, by its length', async (size) => {
    const body = randomBytes(size)
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    expect(await upload(edge, body, { 'Content-Length': size })).toBe(200)
    expect(backend.only.headers).toMatchObject({ 'content-length': String(size) })
    expect(backend.only.headers).not.toHaveProperty('transfer-encoding')
    expect(digest(await backend.only.body())).toBe(digest(body))
  })

  test.each([0, 1, 2, 65_536, 2 * MEGABYTE])('of %i bytes arrives as it was sent, in chunks', async (size) => {
    const body = randomBytes(size)
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    expect(await upload(edge, body, { 'Transfer-Encoding': 'chunked' })).toBe(200)
    expect(backend.only.headers).toMatchObject({ 'transfer-encoding': 'chunked' })
    expect(backend.only.headers).not.toHaveProperty('content-length')
    expect(digest(await backend.only.body())).toBe(digest(body))
  })

  test('in small pieces arrives piece by piece: nothing waits for its end', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n')
    await until(() => backend.received.includes('\r\n\r\n'))
    for (const piece of ['ab', 'cd', 'ef']) {
      client.send(piece)
      await until(() => backend.received.endsWith(piece))
    }
  })

  test('with chunk extensions and trailers arrives without them', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    const edge = await proxying(backend)
    const chunks = '3;name="value"\r\nabc\r\n0;last\r\nX-Trailer: dropped\r\n\r\n'
    await askRaw(
      edge.port,
      `POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTrailer: X-Trailer\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`,
    )
    await until(() => backend.received.endsWith('\r\n0\r\n\r\n'))
    expect(backend.received).toContain('\r\n\r\n3\r\nabc\r\n0\r\n\r\n')
    expect(backend.received).not.toContain('railer')
  })

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

  test('whose answer comes early: the client has it while it still sends, and the connection can go on', async () => {
    const backend = await HttpBackend.start((_req, res) => void res.writeHead(401, { 'Content-Length': 2 }).end('no'))
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345')
    expect(await client.next()).toMatchObject({ status: 401, body: 'no' })
    client.send('67890')
    backend.handler = (_req, res) => void res.writeHead(200, { 'Content-Length': 2 }).end('ok')
    client.send('GET /next HTTP/1.1\r\nHost: a\r\n\r\n')
    expect(await client.next()).toMatchObject({ status: 200, body: 'ok' })
    expect(backend.seen.map(({ url }) => url)).toEqual(['/', '/next'])
    // The rest of the upload would have stood in the way on the first one.
    expect(new Set(backend.seen.map(({ connection }) => connection)).size).toBe(2)
  })

  test('of a compressed body is not touched', async () => {
    const body = gzipSync('hello')
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    expect(await upload(edge, body, { 'Content-Length': body.length, 'Content-Encoding': 'gzip' })).toBe(200)
    expect(await backend.only.body()).toEqual(body)
  })
})

describe('a download', () => {
  test.each([0, 1, 65_536, 300_000, 2 * MEGABYTE])('of %i bytes arrives as it was sent, by its length and in chunks', async (size) => {
    const body = randomBytes(size)
    const backend = await HttpBackend.start((req, res) => {
      if (req.url === '/length') res.setHeader('Content-Length', size)
      else res.setHeader('Transfer-Encoding', 'chunked')
      res.end(body)
    })
    const edge = await proxying(backend)
    for (const framing of ['length', 'chunks']) {
      const response = await fetch(`http://127.0.0.1:${edge.port}/${framing}`)
      expect(response.headers.get('content-length')).toBe(framing === 'length' ? String(size) : null)
      expect(digest(Buffer.from(await response.arrayBuffer()))).toBe(digest(body))
    }
  })

  test('that ends with its connection arrives, framed', async () => {
    const backend = await RawBackend.start(({ socket }) => socket.end('HTTP/1.0 200 OK\r\n\r\nuntil the end'))
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await client.sees('\r\n0\r\n\r\n')
    expect(client.received).toMatch(/\r\nTransfer-Encoding: chunked\r\n/)
    expect(client.received).toMatch(/\r\n\r\nd\r\nuntil the end\r\n0\r\n\r\n$/)
    expect(readAnswer(await answerBytes(edge.port, 'GET / HTTP/1.0\r\n\r\n')).body).toBe('until the end')
  })

  test('goes on as it comes: the head before the body, each piece before the next', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await client.sees('\r\n\r\n')
    for (const piece of ['one', 'two', 'three']) {
      backend.connections[0]!.socket.write(`${piece.length}\r\n${piece}\r\n`)
      await client.sees(piece)
    }
    backend.connections[0]!.socket.write('0\r\n\r\n')
    await client.sees('0\r\n\r\n')
  })

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
    socket.end()
    expect(await client.countsRest()).toBeGreaterThan(given)
  })

  test('while the upload goes on: both directions at once', async () => {
    const backend = await HttpBackend.start((req, res) => void req.pipe(res))
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
    for (const piece of ['one', 'two', 'three']) {
      client.send(`${piece.length}\r\n${piece}\r\n`)
      await client.sees(`${piece.length}\r\n${piece}\r\n`)
    }
    client.send('0\r\n\r\n')
    await client.sees('\r\n0\r\n\r\n')
    expect(statusesIn(client.received)).toEqual([200])
  })

  test('that is compressed is not touched', async () => {
    const body = gzipSync('hello')
    const backend = await HttpBackend.start((_req, res) => void res.writeHead(200, { 'Content-Encoding': 'gzip' }).end(body))
    const edge = await proxying(backend)
    const answer = readAnswer(await answerBytes(edge.port, 'GET / HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n'))
    expect([valuesOf(answer, 'Content-Encoding'), Buffer.from(answer.body, 'latin1')]).toEqual([['gzip'], body])
    expect(backend.only.headers['accept-encoding']).toBe('gzip')
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

function upload(edge: Edge, body: Buffer, headers: Record<string, string | number>): Promise<number> {
  return new Promise((resolve, reject) => {
    const req = request({ port: edge.port, host: '127.0.0.1', method: 'POST', headers, agent: false }, (res) => {
      res
        .resume()
        .on('end', () => resolve(res.statusCode!))
        .on('error', reject)
    })
    req.on('error', reject)
    // In two pieces, so that it is not one write.
    req.write(body.subarray(0, body.length >> 1))
    req.end(body.subarray(body.length >> 1))
  })
}

function digest(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
