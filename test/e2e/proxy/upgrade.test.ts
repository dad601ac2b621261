import { once } from 'node:events'
import type { Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, proxying, RawClient, readAnswer, statusesIn, valuesOf, writeUntilStuck } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { until } from '../../support/until.ts'

const HANDSHAKE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Theirs: 1\r\n\r\n'
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

describe('a WebSocket', () => {
  test('carries messages both ways, small, large and many', async () => {
    const [edge] = await echoing()
    const client = await open(edge)
    const echoed: Buffer[] = []
    client.on('message', (data: Buffer) => echoed.push(data))
    const messages = [
      Buffer.from('hello'),
      Buffer.alloc(0),
      Buffer.alloc(3 << 20, 'x'),
      ...Array.from({ length: 200 }, (_, i) => Buffer.from(`message ${i}`)),
    ]
    for (const message of messages) client.send(message)
    await until(() => echoed.length === messages.length)
    expect(Buffer.concat(echoed).equals(Buffer.concat(messages))).toBe(true)
    expect(await edge.metric('edge_proxy_open_tunnels')).toBe(1)
    client.close()
    await until(async () => (await edge.metric('edge_proxy_open_tunnels')) === 0)
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
  })

  test('keeps its subprotocol, its compression and the word with which it ends', async () => {
    const [edge, backend] = await echoing({ perMessageDeflate: true })
    const client = await open(edge, '/chat?room=1', ['v2.chat', 'v1.chat'])
    expect([client.protocol, client.extensions]).toEqual(['v2.chat', 'permessage-deflate'])
    client.send('close')
    const [code, reason] = (await once(client, 'close')) as [number, Buffer]
    expect([code, reason.toString()]).toEqual([4001, 'goodbye'])
    expect(backend.upgrades[0]).toMatchObject({ url: '/chat?room=1' })
    expect(backend.upgrades[0]!.headers).toMatchObject({
      connection: 'Upgrade',
      upgrade: 'websocket',
      host: `127.0.0.1:${backend.port}`,
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-host': `127.0.0.1:${edge.port}`,
      via: '1.1 edge',
    })
  })

  test('is decided first: a rejected one gets 429 and the backend nothing', async () => {
    const [edge, backend] = await echoing({}, 1)
    const first = await open(edge)
    expect(first.readyState).toBe(WebSocket.OPEN)
    const second = new WebSocket(`ws://127.0.0.1:${edge.port}/`)
    second.on('error', () => {}) // the answer below is the reason
    const [, response] = (await once(second, 'unexpected-response')) as [unknown, { statusCode: number; headers: Record<string, string> }]
    expect([response.statusCode, response.headers['x-edge-reason']]).toEqual([429, 'token_bucket_exceeded'])
    second.terminate()
    expect(backend.upgrades).toHaveLength(1)
  })

  test('gets the RateLimit fields with its 101', async () => {
    const backend = await RawBackend.saying(SWITCHED)
    const edge = await proxying(backend, { clock: new ManualClock(), bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 3)] })) })
    const client = RawClient.connect(edge.port)
    client.send(`GET / HTTP/1.1\r\nHost: a\r\n${HANDSHAKE}\r\n`)
    await client.sees('\r\n\r\n')
    const answer = readAnswer(client.received)
    expect(answer.line).toBe('HTTP/1.1 101 Switching Protocols')
    expect(answer.fields).toEqual([
      ['X-Theirs', '1'],
      ['Via', '1.1 edge'],
      ['RateLimit-Limit', '3'],
      ['RateLimit-Remaining', '2'],
      ['RateLimit-Reset', '1'],
      ['RateLimit', '"p";r=2;t=1'],
      ['Connection', 'Upgrade'],
      ['Upgrade', 'websocket'],
    ])
  })

  test('loses no byte that comes with either handshake', async () => {
    const backend = await RawBackend.saying(`${SWITCHED}early from the backend`)
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(`GET / HTTP/1.1\r\nHost: a\r\n${HANDSHAKE}\r\nearly from the client`)
    await client.sees('early from the backend')
    await until(() => backend.received.endsWith('early from the client'))
    client.send(' and more')
    await until(() => backend.received.endsWith(' and more'))
    backend.connections[0]!.socket.write(', and the rest')
    await client.sees('early from the backend, and the rest')
  })

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

  test('passes a half-close on: the other side may still speak', async () => {
    const backend = await RawBackend.start(({ socket }) => {
      socket.removeAllListeners('end')
      socket.on('end', () => socket.end('last words'))
      socket.write(SWITCHED)
    })
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(`GET / HTTP/1.1\r\nHost: a\r\n${HANDSHAKE}\r\n`)
    await client.sees('\r\n\r\n')
    client.socket.end('goodbye')
    expect((await client.closed()).endsWith('last words')).toBe(true)
    expect(backend.received.endsWith('goodbye')).toBe(true)
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

  test.each([
    ['an ordinary answer', 'HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno', 426, 'no'],
    ['a 200', OK, 200, 'ok'],
  ])('that the backend does not want gets %s', async (_what, answer, status, body) => {
    const backend = await RawBackend.saying(answer)
    const edge = await proxying(backend)
    expect(readAnswer(await answerBytes(edge.port, `GET / HTTP/1.1\r\nHost: a\r\n${HANDSHAKE}\r\n`))).toMatchObject({ status, body })
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

  test('it is charged once', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { clock: new ManualClock(), bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 3)] })) })
    const client = RawClient.connect(edge.port)
    client.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n')
    expect(valuesOf(await client.next(), 'RateLimit-Remaining')).toEqual(['2'])
  })

  test('our own endpoints are ours whatever is asked for besides', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    for (const fields of ['Connection: Upgrade\r\nUpgrade: h2c\r\n', HANDSHAKE]) {
      const client = RawClient.connect(edge.port)
      client.send(`GET /livez HTTP/1.1\r\nHost: a\r\n${fields}\r\n`)
      await client.sees('\r\n\r\n')
      expect(backend.seen).toEqual([])
    }
  })
})

interface EchoBackend {
  readonly port: number
  readonly upgrades: { readonly url?: string | undefined; readonly headers: Record<string, unknown> }[]
}

/** A real WebSocket server behind the proxy: it echoes, and ends when it is told to. */
async function echoing(options: object = {}, burst = 1000): Promise<[Edge, EchoBackend]> {
  const backend = await HttpBackend.start()
  const upgrades: EchoBackend['upgrades'] = []
  const server = new WebSocketServer({ server: backend.server, ...options })
  onTestFinished(() => {
    for (const client of server.clients) client.terminate()
  })
  server.on('connection', (socket, req) => {
    upgrades.push({ url: req.url, headers: req.headers })
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      if (data.toString() === 'close') socket.close(4001, 'goodbye')
      else socket.send(data, { binary: isBinary })
    })
  })
  const edge = await proxying(backend, {
    clock: new ManualClock(),
    bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], burst)] })),
  })
  return [edge, { port: backend.port, upgrades }]
}

async function open(edge: Edge, path = '/', protocols: string[] = []): Promise<WebSocket> {
  const socket = new WebSocket(`ws://127.0.0.1:${edge.port}${path}`, protocols)
  onTestFinished(() => socket.terminate())
  await once(socket, 'open')
  return socket
}
