import { once } from 'node:events'
import { connect } from 'node:net'
import { Worker } from 'node:worker_threads'
import { describe, expect, onTestFinished, test } from 'vitest'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient, readAnswer, statusesIn, valuesOf, writeUntilStuck } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { heldTime } from '../../support/service/held-time.ts'
import { until } from '../../support/until.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const UPLOAD = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'
const HALF = 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
/** Every limit that a test with held time is about. */
const LIMIT_MS = 60_000
const LIMIT = String(LIMIT_MS)
/** What is due after the limit is due by then, and nothing that may take twice as long is. */
const TOO_LONG_MS = 1.5 * LIMIT_MS
/** What may go on for as long as it likes must not be silent for longer. */
const PAUSE_MS = 0.6 * LIMIT_MS
const NEVER = '0'
/** In real time, where it does no harm to be early. */
const AT_ONCE = '50'

describe('EDGE_BACKEND_CONNECT_TIMEOUT_MS', () => {
  const time = heldTime()
  const env = { EDGE_BACKEND_CONNECT_TIMEOUT_MS: LIMIT }

  test('a connection that never comes to be: 504 backend_timeout', async () => {
    const edge = await proxying({ url: await unreachable() }, { env })
    await expectTimeout(edge, asking(edge, GET), () => time.pass(TOO_LONG_MS))
  })

  test('a TLS handshake that never ends is no connection', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying({ url: backend.url.replace('http:', 'https:') }, { env })
    await expectTimeout(edge, asking(edge, GET), () => time.pass(TOO_LONG_MS))
    await until(() => backend.openConnections === 0)
  })
})

describe('EDGE_BACKEND_HEADERS_TIMEOUT_MS', () => {
  const time = heldTime()
  const env = { EDGE_BACKEND_HEADERS_TIMEOUT_MS: LIMIT, EDGE_BACKEND_IDLE_TIMEOUT_MS: NEVER }

  test.each([
    ['no byte of an answer', ''],
    ['half a head', 'HTTP/1.1 200 OK\r\nContent-'],
  ])('%s: 504 backend_timeout, once and not again', async (_what, bytes) => {
    const backend = await RawBackend.start(({ socket }) => void socket.write(bytes))
    const edge = await proxying(backend, { env })
    const client = asking(edge, GET)
    await until(() => backend.heads === 1)
    await expectTimeout(edge, client, () => time.pass(TOO_LONG_MS))
    await until(() => backend.openConnections === 0)
    expect(backend.heads).toBe(1)
  })

  test.each([
    ['with a length', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc'],
    ['in chunks', `${UPLOAD}3\r\nabc\r\n0\r\n\r\n`],
  ])('no answer to an upload %s: 504 when it has been sent', async (_what, upload) => {
    const backend = await HttpBackend.start(async (_req, _res, seen) => void (await seen.body()))
    const edge = await proxying(backend, { env })
    const client = asking(edge, upload)
    await until(() => backend.seen.length === 1)
    await backend.only.body()
    await expectTimeout(edge, client, () => time.pass(TOO_LONG_MS))
  })

  test('does not cut an upload that takes longer: the clock starts when it has been sent', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env })
    const client = asking(edge, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na')
    await until(() => backend.seen.length === 1)
    time.pass(2 * LIMIT_MS)
    client.send('b')
    expect((await client.next()).status).toBe(200)
  })

  test('0 waits for ever', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend, { env: { EDGE_BACKEND_HEADERS_TIMEOUT_MS: '0', EDGE_BACKEND_IDLE_TIMEOUT_MS: '0' } })
    const client = asking(edge, GET)
    await until(() => backend.heads === 1)
    time.pass(10 * LIMIT_MS)
    backend.connections[0]!.socket.write(OK)
    expect((await client.next()).body).toBe('ok')
  })
})

describe('EDGE_BACKEND_IDLE_TIMEOUT_MS', () => {
  const time = heldTime()
  const env = { EDGE_BACKEND_HEADERS_TIMEOUT_MS: NEVER, EDGE_BACKEND_IDLE_TIMEOUT_MS: LIMIT }

  test.each([
    ['right after the head', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n'],
    ['in a body with a length', HALF],
    ['between chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'],
    ['in a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf'],
    ['in a body without end', 'HTTP/1.1 200 OK\r\n\r\nhalf'],
  ])('a backend that falls silent %s: the answer is broken off', async (_where, bytes) => {
    const backend = await RawBackend.saying(bytes)
    const edge = await proxying(backend, { env })
    const client = asking(edge, GET)
    await client.sees('\r\n\r\n')
    await until(() => {
      time.pass(TOO_LONG_MS)
      return client.isClosed
    })
    expect([statusesIn(client.received), client.errorCode]).toEqual([[200], 'ECONNRESET'])
    expect(client.received).not.toContain('\r\n0\r\n')
    await until(() => backend.openConnections === 0)
    expect(await edge.metric('edge_backend_failures_total{reason="backend_timeout"}')).toBe(1)
  })

  test('a body that is slow and never silent for so long is whole', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n')
    const edge = await proxying(backend, { env })
    const client = asking(edge, GET)
    for (const piece of 'whole') {
      time.pass(PAUSE_MS)
      await client.sees('\r\n\r\n')
      backend.connections[0]!.socket.write(piece)
      await until(() => client.received.endsWith(piece))
    }
    expect(client.received.endsWith('\r\n\r\nwhole')).toBe(true)
  })

  test('a backend that takes no more of an upload: 504 backend_timeout', async () => {
    const backend = await RawBackend.start(({ socket }) => void socket.pause())
    const edge = await proxying(backend, { env })
    const client = asking(edge, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000000\r\n\r\n')
    await until(() => backend.heads === 1)
    await writeUntilStuck(client.socket)
    await until(() => {
      time.pass(TOO_LONG_MS)
      return client.received.includes('backend_timeout')
    })
    expect(statusesIn(client.received)).toEqual([504])
  })
})

// In real time: `node:http` has timers of its own, which read requests where EDGE_PROXY_WIRE=node.
describe('a client that stops in the middle of its upload', () => {
  const env = { EDGE_BACKEND_HEADERS_TIMEOUT_MS: NEVER, EDGE_BACKEND_IDLE_TIMEOUT_MS: AT_ONCE }
  const HALF_UPLOAD = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf'

  test('is not waited for for ever', async () => {
    const backend = await HttpBackend.start(async (_req, _res, seen) => void (await seen.body()))
    const edge = await proxying(backend, { env })
    await asking(edge, HALF_UPLOAD).closed()
    await until(async () => backend.openConnections === 0 && (await edge.metric('edge_proxy_open_requests')) === 0)
    for (const { isAborted } of backend.seen) expect(isAborted).toBe(true)
  })
})

describe('between requests', () => {
  const env = { EDGE_KEEPALIVE_MS: '100', EDGE_HEADERS_TIMEOUT_MS: '60000', EDGE_REQUEST_TIMEOUT_MS: '60000' }

  test('EDGE_KEEPALIVE_MS ends idle connections of clients', async () => {
    const edge = await proxying(await HttpBackend.start(), { env })
    const client = asking(edge, GET)
    await client.closed()
    expect([statusesIn(client.received), client.errorCode]).toEqual([[200], undefined])
  })
})

function asking(edge: Edge, bytes: string): RawClient {
  const client = RawClient.connect(edge.port)
  client.send(bytes)
  return client
}

async function expectTimeout(edge: Edge, client: RawClient, pass: () => void): Promise<void> {
  // A client of which nothing has come yet would be cut.
  await until(async () => (await edge.metric('edge_proxy_open_requests')) === 1)
  await until(() => {
    pass()
    return client.received.endsWith('}}')
  })
  const answer = readAnswer(client.received)
  expect([answer.status, valuesOf(answer, 'X-Edge-Reason'), valuesOf(answer, 'Content-Type')]).toEqual([
    504,
    ['backend_timeout'],
    ['application/json'],
  ])
  expect(JSON.parse(answer.body).error).toMatchObject({ type: 'backend_error', code: 'backend_timeout' })
  expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
  expect(await edge.metric('edge_backend_retries_total{reason="backend_timeout"}')).toBe(0)
}

/** An address that answers no attempt to connect: who listens there accepts nobody, and its queue is full. */
async function unreachable(): Promise<string> {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads')
    const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      parentPort.postMessage(server.address().port)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    })`,
    { eval: true, execArgv: [] },
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
