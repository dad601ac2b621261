import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { Upload } from '../../../src/proxy/body/upload.ts'
import { Exchange } from '../../../src/proxy/exchange.ts'
import { answerHello, HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { breakOnce, MISTAKE } from '../../support/proxy/mistakes.ts'
import { proxying, RawClient, valuesOf, writeUntilStuck } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

/** Mistakes of our own, made once and on purpose: each costs one request, and never the worker that serves all the others. */

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const POST = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc'
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

describe('a request during which our own code fails', () => {
  test.each(['onEnd', 'goOn'] as const)('while its body is read (%s) gets 500', async (method) => {
    const edge = await proxying(await HttpBackend.start())
    breakOnce(Upload.prototype, method)
    await expectTold(edge, asking(edge, POST))
  })

  test('while its body is written to the backend gets 500', async () => {
    const unread: IncomingMessage[] = []
    const backend = await HttpBackend.start((req, res, seen) =>
      req.method === 'POST' ? void unread.push(req) : answerHello(req, res, seen),
    )
    const edge = await proxying(backend)
    const write = vi.spyOn(Upload.prototype, 'write')
    onTestFinished(() => write.mockRestore())
    const client = asking(edge, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000000\r\n\r\n')
    await writeUntilStuck(client.socket)
    expect(write.mock.results.some(({ value }) => value === false)).toBe(true)
    breakOnce(Exchange.prototype, 'onDrain')
    unread[0]!.resume()
    await expectTold(edge, client)
  })

  test.each(['onReady', 'onData', 'onEnd'] as const)('while its response is read (%s) gets 500', async (method) => {
    const edge = await proxying(await HttpBackend.start())
    breakOnce(Exchange.prototype, method)
    await expectTold(edge, asking(edge, POST))
  })

  test('in the middle of its response to an HTTP/1.0 client is reset: an end would look like the whole', async () => {
    const backend = await RawBackend.start(
      ({ socket }) => void socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'),
    )
    const client = asking(await proxying(backend), 'GET / HTTP/1.0\r\n\r\n')
    await client.sees('half')
    breakOnce(Exchange.prototype, 'onQuiet')
    backend.connections[0]!.socket.write('4\r\nmore\r\n')
    await client.closed()
    expect([client.errorCode, client.hasEnded]).toEqual(['ECONNRESET', false])
  })

  test.each(['onReady', 'onFailure'] as const)('while it waits for a connection (%s) gets 500', async (method) => {
    const backend = await RawBackend.start(() => {})
    const queueMs = method === 'onFailure' ? '30' : '600000'
    const edge = await proxying(backend, { env: { EDGE_BACKEND_MAX_CONNECTIONS: '1', EDGE_BACKEND_QUEUE_MS: queueMs } })
    const first = asking(edge, GET)
    await until(() => backend.heads === 1)
    breakOnce(Exchange.prototype, method)
    const second = asking(edge, POST)
    if (method === 'onReady') await until(async () => (await edge.metric('edge_backend_queue_requests')) === 1)
    else expect((await second.next()).status).toBe(500)
    backend.connections[0]!.socket.write(OK)
    await first.sees('ok')
    if (method === 'onReady') expect((await second.next()).status).toBe(500)
    backend.script = ({ socket }) => void socket.write(OK)
    await expectServing(edge)
  })

  test('when its client half-closes gets 500', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = asking(edge, GET)
    await until(() => backend.heads === 1)
    breakOnce(Exchange.prototype, 'onClientEnded')
    client.socket.end()
    expect((await client.next()).status).toBe(500)
    await until(() => backend.openConnections === 0)
    backend.script = ({ socket }) => void socket.write(OK)
    await expectServing(edge)
  })

  test('when its client takes more is broken off', async () => {
    let large: ServerResponse | undefined
    const backend = await HttpBackend.start((req, res) => {
      if (req.url === '/small') return void res.end('hello')
      large = res
      res.setHeader('Content-Length', 1e12).flushHeaders()
    })
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.socket.pause()
    breakOnce(Exchange.prototype, 'onClientDrained')
    client.send(GET)
    await until(() => backend.seen.length === 1)
    await writeUntilStuck(large!)
    expect(await client.countsRest()).toBeLessThan(1e12)
    await until(() => backend.only.isAborted)
    await expectServing(edge, '/small')
  })
})

function asking(edge: Edge, bytes: string): RawClient {
  const client = RawClient.connect(edge.port)
  client.send(bytes)
  return client
}

async function expectTold(edge: Edge, client: RawClient): Promise<void> {
  const answer = await client.next()
  expect([answer.status, valuesOf(answer, 'X-Edge-Reason')]).toEqual([500, ['internal_error']])
  await expectServing(edge)
}

async function expectServing(edge: Edge, path = '/'): Promise<void> {
  await until(async () => (await edge.metric('edge_proxy_open_requests')) === 0)
  expect(await untilLogged(edge, 'internal_error')).toMatchObject([{ err: { message: MISTAKE.message } }])
  expect((await edge.get(path)).status).toBe(200)
}
