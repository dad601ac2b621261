import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, proxying, RawClient, readAnswer, valuesOf } from '../../support/proxy/proxy.ts'
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

  test.each([
    ['an ordinary answer', 'HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno', 426, 'no'],
    ['a 200', OK, 200, 'ok'],
  ])('that the backend does not want gets %s', async (_what, answer, status, body) => {
    const backend = await RawBackend.saying(answer)
    const edge = await proxying(backend)
    expect(readAnswer(await answerBytes(edge.port, `GET / HTTP/1.1\r\nHost: a\r\n${HANDSHAKE}\r\n`))).toMatchObject({ status, body })
  })
})

describe('an Upgrade that is no WebSocket is an ordinary request', () => {
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
