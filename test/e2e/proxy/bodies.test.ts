import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { expectDownloaded, expectUploaded, upload } from '../../support/proxy/bodies.ts'
import { answerBytes, askRaw, proxying, RawClient, readAnswer, statusesIn, valuesOf } from '../../support/proxy/proxy.ts'
import { until } from '../../support/until.ts'

describe('an upload', () => {
  test.each([0, 65_536])('of %i bytes arrives as it was sent, by its length', (size) => expectUploaded(size, 'by its length'))

  test.each([65_536])('of %i bytes arrives as it was sent, in chunks', (size) => expectUploaded(size, 'in chunks'))

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
  test.each([65_536])('of %i bytes arrives as it was sent, by its length and in chunks', expectDownloaded)

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
})
