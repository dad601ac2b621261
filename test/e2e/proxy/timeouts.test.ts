import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { answerHello, HttpBackend, RawBackend, type SeenRequest } from '../../support/proxy/backend.ts'
import { askRaw, proxying, RawClient, statusesIn, valuesOf } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Owner } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
/** Where nothing may be cut that the test does not want cut, on a machine that is busy. */
const SHORT_MS = 500
/** Where everything is to be cut. */
const AT_ONCE = '50'
/** Where a pause must be much shorter than this. */
const PATIENT = '1000'
/** Longer than any test. */
const LONG = '600000'
const NEVER = '/never'
const HALF = 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

describe.concurrent('EDGE_BACKEND_CONNECT_TIMEOUT_MS', () => {
  test('a connection that never comes to be: 504 backend_timeout', async (t) => {
    const edge = await proxying({ url: await unreachable(t) }, { env: { EDGE_BACKEND_CONNECT_TIMEOUT_MS: AT_ONCE } }, t)
    await expectTimeout(t, edge, GET)
  })

  test('a TLS handshake that never ends is no connection', async (t) => {
    const backend = await RawBackend.start(() => {}, undefined, t)
    const edge = await proxying({ url: backend.url.replace('http:', 'https:') }, { env: { EDGE_BACKEND_CONNECT_TIMEOUT_MS: AT_ONCE } }, t)
    await expectTimeout(t, edge, GET)
    await until(() => backend.openConnections === 0)
  })

  test('does not run on once it is there: a slow answer is no slow connection', async (t) => {
    const backend = await RawBackend.start(() => {}, undefined, t)
    const edge = await proxying(
      backend,
      {
        env: { EDGE_BACKEND_CONNECT_TIMEOUT_MS: String(SHORT_MS), EDGE_BACKEND_HEADERS_TIMEOUT_MS: String(2 * SHORT_MS) },
      },
      t,
    )
    const slow = RawClient.connect(edge.port, t)
    slow.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na')
    await until(() => backend.received.endsWith('\r\n\r\na'))
    await untilCut(edge)
    backend.connections[0]!.socket.write(OK)
    await slow.sees('ok')
  })
})

describe.concurrent('EDGE_BACKEND_HEADERS_TIMEOUT_MS', () => {
  const env = { EDGE_BACKEND_HEADERS_TIMEOUT_MS: String(SHORT_MS), EDGE_BACKEND_IDLE_TIMEOUT_MS: LONG }
  const strict = { ...env, EDGE_BACKEND_HEADERS_TIMEOUT_MS: AT_ONCE }

  test.for([
    ['no byte of an answer', ''],
    ['half a head', 'HTTP/1.1 200 OK\r\nContent-'],
  ] as const)('%s: 504 backend_timeout, once and not again', async ([_what, bytes], t) => {
    const backend = await RawBackend.start(({ socket }) => void socket.write(bytes), undefined, t)
    const edge = await proxying(backend, { env: strict }, t)
    await expectTimeout(t, edge, GET)
    await until(() => backend.openConnections === 0)
    expect(backend.heads).toBe(1)
  })

  test('no answer to an upload: 504 when it has been sent', async (t) => {
    const backend = await HttpBackend.start(async (_req, _res, seen) => void (await seen.body()), 0, t)
    const edge = await proxying(backend, { env: strict }, t)
    await expectTimeout(t, edge, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc')
    await expectTimeout(t, edge, 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n')
  })

  test('does not cut an upload that takes longer: the clock starts when it has been sent', async (t) => {
    const backend = await HttpBackend.start(answerSome, 0, t)
    const edge = await proxying(backend, { env }, t)
    const client = RawClient.connect(edge.port, t)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na')
    await until(() => backend.seen.length === 1)
    await untilCut(edge)
    client.send('b')
    expect((await client.next()).status).toBe(200)
  })

  test('does not cut a body that takes longer', async (t) => {
    const backend = await RawBackend.start(({ socket }, index) => void socket.write(index === 0 ? HALF : ''), undefined, t)
    const edge = await proxying(backend, { env }, t)
    const client = RawClient.connect(edge.port, t)
    client.send(GET)
    await client.sees('half')
    await untilCut(edge)
    backend.connections[0]!.socket.write('whole')
    await client.sees('halfwhole')
  })

  test('does not run against connections at rest', async (t) => {
    const backend = await HttpBackend.start(answerSome, 0, t)
    const edge = await proxying(backend, { env }, t)
    // Two at once: the one that is not used again rests.
    await Promise.all([edge.get('/together'), edge.get('/together')])
    expect(backend.connections).toBe(2)
    await untilCut(edge)
    expect((await edge.get('/')).status).toBe(200)
    expect(backend.connections).toBe(2)
  })

  test('0 waits for ever', async (t) => {
    const backend = await RawBackend.start(() => {}, undefined, t)
    const patient = await proxying(backend, { env: { EDGE_BACKEND_HEADERS_TIMEOUT_MS: '0', EDGE_BACKEND_IDLE_TIMEOUT_MS: '0' } }, t)
    const answer = patient.get('/')
    await until(() => backend.heads === 1)
    await untilCut(await proxying(backend, { env }, t))
    backend.connections[0]!.socket.write(OK)
    expect((await answer).body).toBe('ok')
  })
})

describe.concurrent('EDGE_BACKEND_IDLE_TIMEOUT_MS', () => {
  const env = { EDGE_BACKEND_HEADERS_TIMEOUT_MS: LONG, EDGE_BACKEND_IDLE_TIMEOUT_MS: String(SHORT_MS) }
  const strict = { ...env, EDGE_BACKEND_IDLE_TIMEOUT_MS: AT_ONCE }

  test.for([
    ['right after the head', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n'],
    ['in a body with a length', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'],
    ['between chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'],
    ['in a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf'],
    ['in a body without end', 'HTTP/1.1 200 OK\r\n\r\nhalf'],
  ] as const)('a backend that falls silent %s: the answer is broken off', async ([_where, bytes], t) => {
    const backend = await RawBackend.start(({ socket }) => void socket.write(bytes), undefined, t)
    const edge = await proxying(backend, { env: strict }, t)
    const client = RawClient.connect(edge.port, t)
    client.send(GET)
    await client.closed()
    expect([statusesIn(client.received), client.errorCode]).toEqual([[200], 'ECONNRESET'])
    expect(client.received).not.toContain('\r\n0\r\n')
    await until(() => backend.openConnections === 0)
    expect(await edge.metric('edge_backend_failures_total{reason="backend_timeout"}')).toBe(1)
  })

  test('a body that is slow and never silent for so long is whole', async (t) => {
    const backend = await RawBackend.start(
      ({ socket }, index) => {
        socket.write(index === 0 ? 'HTTP/1.1 200 OK\r\n\r\n' : HALF)
      },
      undefined,
      t,
    )
    const edge = await proxying(backend, { env: { ...env, EDGE_BACKEND_IDLE_TIMEOUT_MS: PATIENT } }, t)
    const answer = edge.get('/')
    await until(() => backend.heads === 1)
    const { socket } = backend.connections[0]!
    const pieces = await dripUntil(brokenOff(edge, t), () => socket.write('x'))
    socket.end()
    expect((await answer).body).toBe('x'.repeat(pieces))
  })

  test('interim answers do not stand for silence of the head', async (t) => {
    const backend = await RawBackend.start(
      ({ socket }, index) => {
        socket.write(index === 0 ? 'HTTP/1.1 102 Processing\r\n\r\n' : HALF)
      },
      undefined,
      t,
    )
    const edge = await proxying(backend, { env }, t)
    const client = RawClient.connect(edge.port, t)
    client.send(GET)
    await client.sees(' 102 ')
    await brokenOff(edge, t)
    backend.connections[0]!.socket.write(OK)
    await client.sees('ok')
  })

  test('a client that stops in the middle of its upload is not waited for for ever', async (t) => {
    const backend = await HttpBackend.start(async (_req, _res, seen) => void (await seen.body()), 0, t)
    const edge = await proxying(backend, { env: strict }, t)
    const client = RawClient.connect(edge.port, t)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf')
    await client.closed()
    await until(() => backend.only.isAborted)
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
  })

  test('nor one whose body a token budget waits for: nothing of it reaches the backend', async (t) => {
    const backend = await HttpBackend.start(undefined, 0, t)
    const rules = [llmRule('t', [], { tokens_per_minute: 1000 })]
    const edge = await proxying(backend, { env: strict, bundle: bundle(1, policy('p', { rules })) }, t)
    const client = RawClient.connect(edge.port, t)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf')
    await client.closed()
    expect(backend.connections).toBe(0)
  })

  test('an upload that is slow and never stops for so long arrives', async (t) => {
    const backend = await RawBackend.start(({ socket }, index) => void socket.write(index === 0 ? '' : HALF), undefined, t)
    const edge = await proxying(backend, { env: { ...env, EDGE_BACKEND_IDLE_TIMEOUT_MS: PATIENT } }, t)
    const client = RawClient.connect(edge.port, t)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
    await until(() => backend.heads === 1)
    const pieces = await dripUntil(brokenOff(edge, t), () => client.send('1\r\nx\r\n'))
    client.send('0\r\n\r\n')
    const upload = backend.connections[0]!
    await until(() => upload.received.endsWith('\r\n0\r\n\r\n'))
    upload.socket.write(OK)
    expect((await client.next()).status).toBe(200)
    expect(upload.received.split('x').length).toBeGreaterThan(pieces)
  })

  test('a backend that takes no more of an upload: 504 backend_timeout', async (t) => {
    const backend = await RawBackend.start(({ socket }) => void socket.pause(), undefined, t)
    const edge = await proxying(backend, { env }, t)
    const client = RawClient.connect(edge.port, t)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n')
    client.send(Buffer.alloc(50_000_000))
    await client.sees('backend_timeout')
    expect(statusesIn(client.received)).toEqual([504])
  })

  test('a client that takes nothing of its answer is cut, and the backend with it', async (t) => {
    const backend = await HttpBackend.start(
      (_req, res) => {
        res.write(Buffer.alloc(50_000_000))
      },
      0,
      t,
    )
    const edge = await proxying(backend, { env }, t)
    const client = RawClient.connect(edge.port, t)
    client.socket.pause()
    client.send(GET)
    await until(() => backend.seen.length === 1 && backend.only.isAborted)
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
    expect(await edge.metric('edge_backend_failures_total{reason="backend_timeout"}')).toBe(0)
  })

  test('a client that takes its answer slowly and never stops for so long is not cut', async (t) => {
    const block = Buffer.alloc(64 * 1024)
    const backend = await HttpBackend.start(
      (req, res) => {
        const writeOn = (): void => {
          while (!res.destroyed && res.write(block));
        }
        if (req.url === '/long') writeOn()
        else res.writeHead(200, { 'Content-Length': 9 }).write('half')
        res.on('drain', writeOn)
      },
      0,
      t,
    )
    const edge = await proxying(backend, { env: { ...env, EDGE_BACKEND_IDLE_TIMEOUT_MS: PATIENT } }, t)
    const client = connect(edge.port, '127.0.0.1').on('error', () => {})
    t.onTestFinished(() => void client.destroy())
    client.write('GET /long HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => backend.seen.length === 1)
    const twice = brokenOff(edge, t).then(() => brokenOff(edge, t))
    await dripUntil(twice, () => client.read())
    expect(backend.seen[0]!.isAborted).toBe(false)
  })

  test('a WebSocket may be silent for as long as it likes', async (t) => {
    const switched = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
    const backend = await RawBackend.start(({ socket }, index) => void socket.write(index === 0 ? switched : ''), undefined, t)
    const edge = await proxying(
      backend,
      {
        env: { ...env, EDGE_BACKEND_HEADERS_TIMEOUT_MS: String(SHORT_MS), EDGE_KEEPALIVE_MS: String(SHORT_MS) },
      },
      t,
    )
    const client = RawClient.connect(edge.port, t)
    client.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    await client.sees(' 101 ')
    await untilCut(edge)
    backend.connections[0]!.socket.write('still here')
    await client.sees('still here')
  })
})

describe.concurrent('between requests', () => {
  test('EDGE_KEEPALIVE_MS ends idle connections of clients', async (t) => {
    const backend = await HttpBackend.start(undefined, 0, t)
    const edge = await proxying(backend, { env: { EDGE_KEEPALIVE_MS: '100' } }, t)
    const client = RawClient.connect(edge.port, t)
    client.send(GET)
    await client.closed()
    expect([statusesIn(client.received), client.errorCode]).toEqual([[200], undefined])
  })

  test('a request that takes longer than that is not idle', async (t) => {
    const backend = await RawBackend.start(() => {}, undefined, t)
    const edge = await proxying(backend, { env: { EDGE_KEEPALIVE_MS: '100' } }, t)
    const answer = edge.get('/')
    await until(() => backend.heads === 1)
    const idle = RawClient.connect(edge.port, t)
    idle.send('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n')
    await idle.closed()
    backend.connections[0]!.socket.write(OK)
    expect((await answer).body).toBe('ok')
  })
})

/** Some requests are never answered, some only together. */
async function answerSome(req: IncomingMessage, res: ServerResponse, seen: SeenRequest): Promise<void> {
  if (req.url === NEVER) return
  if (req.url === '/together') {
    together.push(res)
    if (together.length === 2) for (const each of together.splice(0)) each.end()
    return
  }
  await answerHello(req, res, seen)
}

const together: ServerResponse[] = []

/** Asks what the backend does not answer: when that is cut, so is everything that began before and whose time is no longer. */
async function untilCut(edge: Edge): Promise<void> {
  expect((await edge.get(NEVER)).headers['x-edge-reason']).toBe('backend_timeout')
}

/** Asks what the backend answers by half, and waits until that is cut. */
async function brokenOff(edge: Edge, owner: Owner): Promise<void> {
  const client = RawClient.connect(edge.port, owner)
  client.send(GET)
  await client.sees('half')
  await client.closed()
}

/** Goes on piece by piece until then, and answers how many. */
async function dripUntil(over: Promise<void>, drip: () => unknown): Promise<number> {
  let [isOver, pieces] = [false, 0]
  void over.then(() => {
    isOver = true
  })
  await until(() => {
    drip()
    pieces++
    return isOver
  })
  await over
  return pieces
}

async function expectTimeout(owner: Owner, edge: Edge, request: string): Promise<void> {
  const answer = await askRaw(edge.port, request.replace('Host: a', 'Host: a\r\nConnection: close'), owner)
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
async function unreachable(owner: Owner): Promise<string> {
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
  owner.onTestFinished(async () => {
    for (const socket of queue) socket.destroy()
    await worker.terminate()
  })
  await once(queue[1]!, 'connect')
  return `http://127.0.0.1:${port}`
}
