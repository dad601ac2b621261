import { describe, expect, test } from 'vitest'
import { Upload } from '../../../src/proxy/body/upload.ts'
import { Exchange } from '../../../src/proxy/exchange.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { breakOnce, MISTAKE } from '../../support/proxy/mistakes.ts'
import { proxying, RawClient, valuesOf } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

/** Mistakes of our own, made once and on purpose: each costs one request, and never the worker that serves all the others. */

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const POST = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc'
const WEB_SOCKET = 'GET /w HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

describe('a request during which our own code fails', () => {
  test.each(['onData'] as const)('while its body is read (%s) gets 500', async (method) => {
    const edge = await proxying(await HttpBackend.start())
    breakOnce(Upload.prototype, method)
    await expectTold(edge, asking(edge, POST))
  })

  test.each(['onHead'] as const)('while its response is read (%s) gets 500', async (method) => {
    const edge = await proxying(await HttpBackend.start())
    breakOnce(Exchange.prototype, method)
    await expectTold(edge, asking(edge, POST))
  })

  test('at an interim response gets 500', async () => {
    const edge = await proxying(await RawBackend.saying(`HTTP/1.1 103 Early Hints\r\n\r\n${OK}`))
    breakOnce(Exchange.prototype, 'onInterim')
    await expectTold(edge, asking(edge, GET))
  })

  test('when another protocol begins gets 500, and no tunnel stays open', async () => {
    const backend = await RawBackend.start(({ socket, received }) => void socket.write(received.includes('/w') ? SWITCHED : OK))
    const edge = await proxying(backend)
    breakOnce(Exchange.prototype, 'onUpgraded')
    await expectTold(edge, asking(edge, WEB_SOCKET))
    await until(() => backend.connections[0]!.isClosed)
    expect(await edge.metric('edge_proxy_open_tunnels')).toBe(0)
  })

  test('in the middle of its response is broken off', async () => {
    const backend = await RawBackend.start(({ socket }) => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'))
    const edge = await proxying(backend)
    const client = asking(edge, GET)
    await client.sees('half')
    breakOnce(Exchange.prototype, 'onQuiet')
    backend.connections[0]!.socket.write('more')
    await client.closed()
    await until(() => backend.openConnections === 0)
    backend.script = ({ socket }) => void socket.write(OK)
    await expectServing(edge)
  })

  test('when its client leaves ends at the backend too', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = asking(edge, GET)
    await until(() => backend.heads === 1)
    breakOnce(Exchange.prototype, 'onClientGone')
    client.socket.resetAndDestroy()
    await until(() => backend.openConnections === 0)
    backend.script = ({ socket }) => void socket.write(OK)
    await expectServing(edge)
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
