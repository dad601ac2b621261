import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { describe, expect, onTestFinished, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { askRaw, proxying, RawClient, statusesIn, valuesOf } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { until } from '../../support/until.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const SHORT_MS = 300
/** Longer than any test. */
const LONG = '600000'
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

describe('EDGE_BACKEND_CONNECT_TIMEOUT_MS', () => {
  test('a connection that never comes to be: 504 backend_timeout', async () => {
    const edge = await proxying({ url: await unreachable() }, { env: { EDGE_BACKEND_CONNECT_TIMEOUT_MS: String(SHORT_MS) } })
    await expectTimeout(edge, GET)
  })

  test('a TLS handshake that never ends is no connection', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(
      { url: backend.url.replace('http:', 'https:') },
      { env: { EDGE_BACKEND_CONNECT_TIMEOUT_MS: String(SHORT_MS) } },
    )
    await expectTimeout(edge, GET)
    await until(() => backend.openConnections === 0)
  })

  test('does not run on once it is there: a slow answer is no slow connection', async () => {
    const backend = await RawBackend.start(async ({ socket }) => {
      await sleep(2 * SHORT_MS)
      socket.write(OK)
    })
    const edge = await proxying(backend, { env: { EDGE_BACKEND_CONNECT_TIMEOUT_MS: String(SHORT_MS) } })
    expect((await edge.get('/')).body).toBe('ok')
  })
})

describe('EDGE_BACKEND_HEADERS_TIMEOUT_MS', () => {
  const env = { EDGE_BACKEND_HEADERS_TIMEOUT_MS: String(SHORT_MS), EDGE_BACKEND_IDLE_TIMEOUT_MS: LONG }

  test.each([
    ['no byte of an answer', ''],
    ['half a head', 'HTTP/1.1 200 OK\r\nContent-'],
  ])('%s: 504 backend_timeout, once and not again', async (_what, bytes) => {
    const backend = await RawBackend.saying(bytes)
    const edge = await proxying(backend, { env })
    await expectTimeout(edge, GET)
    await until(() => backend.openConnections === 0)
    expect(backend.heads).toBe(1)
  })

  test('no answer to an upload: 504 when it has been sent', async () => {
    const backend = await HttpBackend.start(async (_req, _res, seen) => void (await seen.body()))
    const edge = await proxying(backend, { env })
    await expectTimeout(edge, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc')
    await expectTimeout(edge, 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n')
  })

  test('does not cut an upload that takes longer: the clock starts when it has been sent', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env })
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na')
    await sleep(3 * SHORT_MS)
    client.send('b')
    expect((await client.next()).status).toBe(200)
  })

  test('does not cut a body that takes longer', async () => {
    const backend = await HttpBackend.start(async (_req, res) => {
      res.write('a')
      await sleep(3 * SHORT_MS)
      res.end('b')
    })
    const edge = await proxying(backend, { env })
    expect((await edge.get('/')).body).toBe('ab')
  })

  test('does not run against connections at rest', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env })
    await edge.get('/')
    await sleep(2 * SHORT_MS)
    expect((await edge.get('/')).status).toBe(200)
    expect(backend.connections).toBe(1)
  })

  test('0 waits for ever', async () => {
    const backend = await RawBackend.start(async ({ socket }) => {
      await sleep(2 * SHORT_MS)
      socket.write(OK)
    })
    const edge = await proxying(backend, { env: { EDGE_BACKEND_HEADERS_TIMEOUT_MS: '0', EDGE_BACKEND_IDLE_TIMEOUT_MS: '0' } })
    expect((await edge.get('/')).body).toBe('ok')
  })
})

describe('EDGE_BACKEND_IDLE_TIMEOUT_MS', () => {
  const env = { EDGE_BACKEND_HEADERS_TIMEOUT_MS: LONG, EDGE_BACKEND_IDLE_TIMEOUT_MS: String(SHORT_MS) }

  test.each([
    ['right after the head', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n'],
    ['in a body with a length', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'],
    ['between chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'],
    ['in a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf'],
    ['in a body without end', 'HTTP/1.1 200 OK\r\n\r\nhalf'],
  ])('a backend that falls silent %s: the answer is broken off', async (_where, bytes) => {
    const backend = await RawBackend.saying(bytes)
    const edge = await proxying(backend, { env })
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await client.closed()
    expect([statusesIn(client.received), client.errorCode]).toEqual([[200], 'ECONNRESET'])
    expect(client.received).not.toContain('\r\n0\r\n')
    await until(() => backend.openConnections === 0)
    expect(await edge.metric('edge_backend_failures_total{reason="backend_timeout"}')).toBe(1)
  })

  test('a body that is slow and never silent for so long is whole', async () => {
    const backend = await HttpBackend.start(async (_req, res) => {
      for (let i = 0; i < 20; i++) {
        res.write('x')
        await sleep(SHORT_MS / 10)
      }
      res.end()
    })
    const edge = await proxying(backend, { env: { ...env, EDGE_BACKEND_IDLE_TIMEOUT_MS: '2000' } })
    expect((await edge.get('/')).body).toBe('x'.repeat(20))
  })

  test('interim answers do not stand for silence of the head', async () => {
    const backend = await RawBackend.start(async ({ socket }) => {
      socket.write('HTTP/1.1 102 Processing\r\n\r\n')
      await sleep(3 * SHORT_MS)
      socket.write(OK)
    })
    const edge = await proxying(backend, { env })
    expect((await edge.get('/')).body).toBe('ok')
  })

  test('a client that stops in the middle of its upload is not waited for for ever', async () => {
    const backend = await HttpBackend.start(async (_req, _res, seen) => void (await seen.body()))
    const edge = await proxying(backend, { env })
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf')
    await client.closed()
    await until(() => backend.only.isAborted)
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
  })

  test('nor one whose body a token budget waits for: nothing of it reaches the backend', async () => {
    const backend = await HttpBackend.start()
    const rules = [llmRule('t', [], { tokens_per_minute: 1000 })]
    const edge = await proxying(backend, { env, bundle: bundle(1, policy('p', { rules })) })
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf')
    await client.closed()
    expect(backend.connections).toBe(0)
  })

  test('an upload that is slow and never stops for so long arrives', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env: { ...env, EDGE_BACKEND_IDLE_TIMEOUT_MS: '2000' } })
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n')
    for (let i = 0; i < 20; i++) {
      client.send('x')
      await sleep(SHORT_MS / 10)
    }
    expect((await client.next()).status).toBe(200)
  })

  test('a backend that takes no more of an upload: 504 backend_timeout', async () => {
    const backend = await RawBackend.start(({ socket }) => void socket.pause())
    const edge = await proxying(backend, { env })
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n')
    client.send(Buffer.alloc(50_000_000))
    await client.sees('backend_timeout')
    expect(statusesIn(client.received)).toEqual([504])
  })

  test('a client that takes nothing of its answer is cut, and the backend with it', async () => {
    const backend = await HttpBackend.start((_req, res) => {
      res.write(Buffer.alloc(50_000_000))
    })
    const edge = await proxying(backend, { env })
    const client = RawClient.connect(edge.port)
    client.socket.pause()
    client.send(GET)
    await until(() => backend.seen.length === 1 && backend.only.isAborted)
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
    expect(await edge.metric('edge_backend_failures_total{reason="backend_timeout"}')).toBe(0)
  })

  test('a WebSocket may be silent for as long as it likes', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
    const edge = await proxying(backend, {
      env: { ...env, EDGE_BACKEND_HEADERS_TIMEOUT_MS: String(SHORT_MS), EDGE_KEEPALIVE_MS: String(SHORT_MS) },
    })
    const client = RawClient.connect(edge.port)
    client.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    await client.sees('\r\n\r\n')
    await sleep(3 * SHORT_MS)
    backend.connections[0]!.socket.write('still here')
    await client.sees('still here')
  })
})

describe('between requests', () => {
  test('EDGE_KEEPALIVE_MS ends idle connections of clients', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env: { EDGE_KEEPALIVE_MS: '100' } })
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await client.closed()
    expect([statusesIn(client.received), client.errorCode]).toEqual([[200], undefined])
  })

  test('a request that takes longer than that is not idle', async () => {
    const backend = await RawBackend.start(async ({ socket }) => {
      await sleep(2000)
      socket.write(OK)
    })
    const edge = await proxying(backend, { env: { EDGE_KEEPALIVE_MS: '100' } })
    expect((await edge.get('/')).body).toBe('ok')
  })
})

async function expectTimeout(edge: Edge, request: string): Promise<void> {
  const answer = await askRaw(edge.port, request.replace('Host: a', 'Host: a\r\nConnection: close'))
  expect([answer.status, valuesOf(answer, 'X-Edge-Reason'), valuesOf(answer, 'Content-Type')]).toEqual([
    504,
    ['backend_timeout'],
    ['application/json'],
  ])
  expect(JSON.parse(answer.body).error).toMatchObject({ type: 'backend_error', code: 'backend_timeout' })
  expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
}

/** An address that answers no attempt to connect: who listens there accepts nobody, and its queue is full. */
async function unreachable(): Promise<string> {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads')
    const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      parentPort.postMessage(server.address().port)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    })`,
    { eval: true },
  )
  const [port] = (await once(worker, 'message')) as [number]
  const queue = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => {}))
  onTestFinished(async () => {
    for (const socket of queue) socket.destroy()
    await worker.terminate()
  })
  await once(queue[1]!, 'connect')
  return `http://127.0.0.1:${port}`
}
