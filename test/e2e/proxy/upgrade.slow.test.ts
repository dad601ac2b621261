import type { Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, proxying, RawClient, readAnswer, statusesIn, valuesOf, writeUntilStuck } from '../../support/proxy/proxy.ts'
import { until } from '../../support/until.ts'

const HANDSHAKE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Theirs: 1\r\n\r\n'
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

describe('a WebSocket', () => {
  test('loses no byte that comes while the backend makes up its mind', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(`GET / HTTP/1.1\r\nHost: a\r\n${HANDSHAKE}\r\n`)
    await until(() => backend.heads === 1)
    client.send('sent meanwhile')
    // Once another client was served, these bytes are there as well.
    await edge.get('/livez')
    backend.connections[0]!.socket.write(SWITCHED)
    await until(() => backend.received.endsWith('\r\n\r\nsent meanwhile'))
  })

  test('ends on both sides when one of them ends, or breaks', async () => {
    for (const side of ['client', 'backend'] as const) {
      for (const how of ['end', 'destroy', 'resetAndDestroy'] as const) {
        const backend = await RawBackend.saying(SWITCHED)
        const edge = await proxying(backend)
        const client = RawClient.connect(edge.port)
        client.send(`GET / HTTP/1.1\r\nHost: a\r\n${HANDSHAKE}\r\n`)
        await client.sees('\r\n\r\n')
        const socket: Socket = side === 'client' ? client.socket : backend.connections[0]!.socket
        socket[how]()
        await until(() => client.isClosed && backend.openConnections === 0)
        await until(async () => (await edge.metric('edge_proxy_open_tunnels')) === 0)
      }
    }
  })

  test('holds back who sends faster than the other reads', async () => {
    const backend = await RawBackend.start(({ socket }) => {
      socket.write(SWITCHED)
      socket.pause()
    })
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(`GET / HTTP/1.1\r\nHost: a\r\n${HANDSHAKE}\r\n`)
    await client.sees('\r\n\r\n')
    const size = await writeUntilStuck(client.socket)
    let seen = 0
    const { socket } = backend.connections[0]!
    socket.removeAllListeners('data')
    socket.on('data', (chunk: Buffer) => {
      seen += chunk.length
    })
    socket.resume()
    await until(() => seen >= size)
  })

  test('whose backend fails gets its 502', async () => {
    const backend = await RawBackend.start(({ socket }) => socket.resetAndDestroy())
    const edge = await proxying(backend)
    const answer = readAnswer(await answerBytes(edge.port, `GET / HTTP/1.1\r\nHost: a\r\n${HANDSHAKE}\r\n`))
    expect([answer.status, ...valuesOf(answer, 'X-Edge-Reason')]).toEqual([502, 'backend_reset'])
  })

  test('never begins on a connection that served others, and none is served on its own', async () => {
    const backend = await RawBackend.start(({ socket }, index) => void socket.write(index === 1 ? SWITCHED : OK))
    const edge = await proxying(backend)
    await edge.get('/')
    const client = RawClient.connect(edge.port)
    client.send(`GET /ws HTTP/1.1\r\nHost: a\r\n${HANDSHAKE}\r\n`)
    await client.sees('\r\n\r\n')
    await edge.get('/')
    expect(backend.connections.map(({ heads }) => heads)).toEqual([2, 1])
  })

  test('a body behind the handshake is refused or read, never left to stand between two requests', async () => {
    for (const framed of ['Content-Length: 5\r\n\r\nhello', 'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n']) {
      const backend = await HttpBackend.start()
      const edge = await proxying(backend)
      const client = RawClient.connect(edge.port)
      client.send(`GET / HTTP/1.1\r\nHost: a\r\n${HANDSHAKE}${framed}`)
      await client.sees('HTTP/1.1 ')
      expect([200, 400]).toContain(statusesIn(client.received)[0])
    }
  })

  test('that nobody asked for by Connection is none: a 101 to it is refused', async () => {
    const backend = await RawBackend.saying(SWITCHED)
    const edge = await proxying(backend)
    const received = await answerBytes(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: close\r\n\r\n')
    expect(statusesIn(received)).toEqual([502])
    expect(backend.received).not.toContain('websocket')
  })
})

describe('an Upgrade that is no WebSocket is an ordinary request', () => {
  const UPGRADES: readonly (readonly [what: string, method: string, fields: string])[] = [
    ['h2c', 'GET', 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n'],
    ['POST and websocket', 'POST', HANDSHAKE],
    ['several protocols', 'GET', 'Connection: Upgrade\r\nUpgrade: h2c, websocket\r\n'],
    ['TLS', 'OPTIONS', 'Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n'],
    ['one without Connection', 'GET', 'Upgrade: websocket\r\n'],
    ['one beside keep-alive', 'GET', 'Connection: keep-alive, Upgrade\r\nUpgrade: foo\r\n'],
  ]

  test.each(UPGRADES)('%s', async (_what, method, fields) => {
    const backend = await HttpBackend.start((_req, res) => {
      res.setHeader('Content-Length', 2)
      res.end('ok')
    })
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(`${method} /a?b HTTP/1.1\r\nHost: a\r\nX-Kept: \xe9\r\n${fields}\r\n`)
    expect(await client.next()).toMatchObject({ status: 200, body: 'ok' })
    expect(backend.only).toMatchObject({ method, url: '/a?b', headers: { 'x-kept': '\xe9' } })
    for (const name of ['upgrade', 'connection', 'http2-settings']) expect(backend.only.headers).not.toHaveProperty(name)
    // And the connection goes on, for the same client.
    client.send('GET /next HTTP/1.1\r\nHost: a\r\n\r\n')
    expect(await client.next()).toMatchObject({ status: 200, body: 'ok' })
    expect(backend.seen).toHaveLength(2)
  })

  test.each([
    ['a length', (body: string) => `Content-Length: ${body.length}\r\n\r\n${body}`],
    ['chunks', (body: string) => `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`],
  ])('its body is read, by %s, and what is pipelined behind it too', async (_framing, framed) => {
    const body = 'GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n'
    const backend = await HttpBackend.start(async (_req, res, seen) => {
      const { length } = await seen.body()
      res.setHeader('Content-Length', String(length).length)
      res.end(String(length))
    })
    const edge = await proxying(backend)
    for (const fields of ['Connection: Upgrade\r\nUpgrade: h2c\r\n', HANDSHAKE]) {
      const client = RawClient.connect(edge.port)
      client.send(`POST /h2c HTTP/1.1\r\nHost: a\r\n${fields}${framed(body)}GET /next HTTP/1.1\r\nHost: a\r\n\r\n`)
      expect((await client.next()).body).toBe(String(body.length))
      expect((await client.next()).body).toBe('0')
    }
    expect(new Set(backend.seen.map(({ url }) => url))).toEqual(new Set(['/h2c', '/next']))
  })

  test('again and again on one connection', async () => {
    const backend = await HttpBackend.start((_req, res) => {
      res.setHeader('Content-Length', 2)
      res.end('ok')
    })
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    for (let i = 0; i < 50; i++) {
      client.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n')
      expect((await client.next()).body).toBe('ok')
    }
    expect(backend.seen).toHaveLength(50)
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
  })
})
