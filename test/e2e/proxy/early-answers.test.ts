import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient, statusesIn, writeUntilStuck } from '../../support/proxy/proxy.ts'
import { sized } from '../../support/run/property-runs.ts'
import { heldTime } from '../../support/service/held-time.ts'
import { until } from '../../support/until.ts'

const TOO_LARGE = 'HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nlong'
const IN_CHUNKS = 'HTTP/1.1 413 Content Too Large\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nlong\r\n0\r\n\r\n'
const BY_LENGTH = 'Host: a\r\nContent-Length: 1000000000\r\n\r\n'
const CHUNKED = 'Host: a\r\nTransfer-Encoding: chunked\r\n\r\n'

/** Uploads that nobody wants are read for five seconds. */
const time = heldTime()
const A_WHILE_MS = 500

describe('an upload that goes on after its answer', () => {
  test('of the backend is read for a while, and then its connection is closed', async () => {
    const backend = await RawBackend.start(({ socket, heads }) => void (heads === 1 && socket.write(TOO_LARGE)))
    const edge = await proxying(backend)
    const clients = [
      new Uploader(edge.port, `POST / HTTP/1.1\r\n${BY_LENGTH}`, 'x'),
      new Uploader(edge.port, `POST / HTTP/1.1\r\n${CHUNKED}`, '1\r\nx\r\n'),
      new Uploader(edge.port, `POST / HTTP/1.1\r\n${BY_LENGTH}`, 'x'.repeat(100_000)),
      // One that sends nothing more at all.
      new Uploader(edge.port, `POST / HTTP/1.1\r\n${BY_LENGTH}`, ''),
    ]
    for (const { client } of clients) await client.sees('long')
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
    await untilCut(clients)
    for (const { client } of clients) expect(statusesIn(client.received)).toEqual([413])
    // What nobody wants is not sent on.
    await until(() => backend.openConnections === 0)
  })

  test('that is the last on its connection: the client sees that it is, and nothing is reset before', async () => {
    const backend = await RawBackend.start(({ socket, heads }) => void (heads === 1 && socket.write(IN_CHUNKS)))
    const edge = await proxying(backend)
    const clients = [
      new Uploader(edge.port, `POST / HTTP/1.1\r\nConnection: close\r\n${BY_LENGTH}`, 'x'),
      new Uploader(edge.port, `POST / HTTP/1.1\r\nConnection: close\r\n${CHUNKED}`, '1\r\nx\r\n'),
      new Uploader(edge.port, `POST / HTTP/1.0\r\n${BY_LENGTH}`, 'x'),
    ]
    for (const uploader of clients) {
      const { client } = uploader
      await until(() => client.hasEnded)
      expect([client.isClosed, client.errorCode, statusesIn(client.received)]).toEqual([false, undefined, [413]])
      expect(client.received).toMatch(/long(?:\r\n0\r\n\r\n)?$/)
      // What it sends is still taken.
      const sent = client.socket.bytesWritten
      await until(() => {
        uploader.sendOn()
        return client.isClosed || client.socket.bytesWritten >= sent + 50
      })
      expect([client.isClosed, client.errorCode]).toEqual([false, undefined])
    }
    await until(() => {
      for (const uploader of clients) uploader.sendOn()
      time.pass(A_WHILE_MS)
      return clients.every(({ client }) => client.isClosed)
    })
  })

  test('of edge itself is bounded too, also for a small body that never comes, and on its own endpoints', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { bundle: bundle(1, policy('p', { rules: [bucketRule('r', ['ip:address'], 1, 0.001)] })) })
    await edge.get('/')
    const clients = [
      new Uploader(edge.port, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n', 'x'),
      new Uploader(edge.port, `POST / HTTP/1.1\r\n${BY_LENGTH}`, 'x'),
      new Uploader(edge.port, `POST / HTTP/1.1\r\n${CHUNKED}`, '1\r\nx\r\n'),
      new Uploader(edge.port, `POST /livez HTTP/1.1\r\n${BY_LENGTH}`, 'x'),
    ]
    for (const { client } of clients) await client.sees('HTTP/1.1 4')
    await untilCut(clients)
    expect(clients.map(({ client }) => statusesIn(client.received))).toEqual([[429], [429], [429], [405]])
  })
})

describe('an answer before the end of an upload', () => {
  test.each(['Connection: close\r\n', ''])('is there for a client that reads only when it has sent everything (%j)', async (field) => {
    const backend = await RawBackend.start(({ socket, heads }) => void (heads === 1 && socket.write(TOO_LARGE)))
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.socket.pause()
    // More than the system's buffers hold.
    const size = 12_000_000
    client.send(`POST / HTTP/1.1\r\nHost: a\r\n${field}Content-Length: ${size}\r\n\r\n`)
    client.send(Buffer.alloc(size))
    await until(() => client.socket.writableLength === 0 || client.isClosed)
    client.socket.resume()
    await client.sees('long')
    expect(client.errorCode).toBeUndefined()
    if (field !== '') await client.closed()
    else {
      client.received = ''
      client.send('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n')
      expect((await client.next()).status).toBe(200)
    }
  })
})

test('an answer of a backend that closes behind it, unread upload and all, reaches the client', async () => {
  const backend = await HttpBackend.start((_req, res) => {
    res.writeHead(413, { 'Content-Length': 4, Connection: 'close' })
    res.end('long')
  })
  const edge = await proxying(backend)
  const piece = Buffer.alloc(1_000_000)
  for (let i = 0; i < sized(2, 8); i++) {
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12000000\r\n\r\n')
    for (let sent = 0; sent < 12; sent++) client.send(piece)
    expect(await client.next()).toMatchObject({ status: 413, body: 'long' })
    client.socket.destroy()
  }
})

test('a client that takes nothing of its answer for the idle timeout is cut, however busily it uploads', async () => {
  const backend = await RawBackend.start(({ socket, heads }) => void (heads === 1 && socket.write('HTTP/1.1 200 OK\r\n\r\n')))
  const edge = await proxying(backend, { env: { EDGE_BACKEND_IDLE_TIMEOUT_MS: '60000' } })
  const uploader = new Uploader(edge.port, `POST / HTTP/1.1\r\n${BY_LENGTH}`, 'x')
  uploader.client.socket.pause()
  await until(() => backend.heads === 1)
  await writeUntilStuck(backend.connections[0]!.socket)
  await until(() => {
    uploader.sendOn()
    time.pass(10_000)
    return backend.openConnections === 0
  })
  await until(async () => (await edge.metric('edge_proxy_open_requests')) === 0)
  expect(await edge.metric('edge_proxy_client_aborts_total')).toBe(1)
})

/** They send on and on while time passes. */
async function untilCut(clients: readonly Uploader[]): Promise<void> {
  await until(() => {
    for (const client of clients) client.sendOn()
    time.pass(A_WHILE_MS)
    return clients.every(({ isCut }) => isCut)
  })
}

/** A client that goes on sending until it is cut. */
class Uploader {
  readonly client: RawClient
  readonly #piece: string

  constructor(port: number, head: string, piece: string) {
    this.client = RawClient.connect(port)
    this.#piece = piece
    // It does not stop because the other side has ended.
    this.client.socket.removeAllListeners('end')
    this.client.socket.on('end', () => {
      this.client.hasEnded = true
    })
    this.client.send(head)
  }

  sendOn(): void {
    const { socket } = this.client
    if (this.#piece !== '' && socket.writable && socket.writableLength === 0) this.client.send(this.#piece)
  }

  /** One that sends is reset, one that is silent sees an end. */
  get isCut(): boolean {
    return this.client.hasEnded || this.client.isClosed
  }
}
