import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { beforeAll, describe, expect, test } from 'vitest'
import { RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, proxying, RawClient, servingProxy } from '../../support/proxy/proxy.ts'
import { expectEcho, expectRefused, startTlsBackend, type TlsBackend, UNTRUSTED } from '../../support/proxy/tls-backend.ts'
import { sized } from '../../support/run/property-runs.ts'
import type { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import { describeWithOpenssl } from '../../support/service/openssl-suite.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

describeWithOpenssl('a backend that speaks TLS', () => {
  const suite = thisSuite()
  let [backend, cli]: [backend: TlsBackend, cli: Cli] = [] as never
  beforeAll(async () => {
    backend = await startTlsBackend('DNS:localhost,IP:127.0.0.1', suite)
    cli = await servingProxy({ url: `https://localhost:${backend.port}/base` }, { NODE_EXTRA_CA_CERTS: backend.certificate }, suite)
  })

  test('whose certificate is trusted answers by name', async () => {
    await expectEcho(cli, backend, 'localhost', 'localhost')
  })

  test('a large body passes both ways', async () => {
    const body = 'x'.repeat(300_000)
    const answer = await ask(cli.port, 'POST', '/', [], body)
    expect([answer.status, answer.body === body]).toEqual([200, true])
  })

  test('half an answer is broken off, with or without a farewell', async () => {
    for (const how of ['end', 'destroy'] as const) {
      let answering: TLSSocket | undefined
      backend.handler = (req, res) => {
        answering = req.socket as TLSSocket
        res.writeHead(200, { 'Content-Length': 100 })
        res.write('half')
      }
      const client = RawClient.connect(cli.port)
      client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      await client.sees('half')
      answering![how]()
      await client.closed()
      expect([how, client.errorCode, client.hasEnded]).toEqual([how, 'ECONNRESET', false])
    }
  })

  test('an answer that ends with its connection is whole when that is closed, and broken when it is reset', async () => {
    for (const [path, isWhole] of Object.entries({ '/close': true, '/reset': false })) {
      backend.handler = (req) => {
        // Its TLS is on top of this one.
        const transport = backend.lastConnection()
        req.socket.write('HTTP/1.1 200 OK\r\n\r\nhalf', () => (isWhole ? req.socket.end() : transport.resetAndDestroy()))
      }
      for (let i = 0; i < sized(2, 10); i++) {
        const received = await answerBytes(cli.port, `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
        expect([path, received.endsWith('4\r\nhalf\r\n0\r\n\r\n')]).toEqual([path, isWhole])
      }
    }
  })

  test('with a certificate that nobody trusts: 502, and nothing is sent', async () => {
    const { port, seen } = await startTlsBackend('DNS:localhost')
    const edge = await proxying({ url: `https://localhost:${port}` })
    expectRefused(await ask(edge.port, 'POST', '/', [], 'secret'))
    expect(seen).toEqual([])
    expect(await untilLogged(edge, 'backend_failed')).toContainEqual(UNTRUSTED)
  })
})

describe('a backend that should speak TLS and does not', () => {
  test('but answers in the clear: 502', async () => {
    const backend = await RawBackend.start(
      () => {},
      (socket) => void socket.write('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'),
    )
    const edge = await proxying({ url: backend.url.replace('http:', 'https:') })
    expectRefused(await edge.get('/'))
    await until(() => backend.openConnections === 0)
  })

  test('but hangs up, in any way: 502, and nobody waits', async () => {
    let hangUp: (socket: Socket) => unknown = () => {}
    const backend = await RawBackend.start(
      () => {},
      (socket) => void socket.once('data', () => hangUp(socket)),
    )
    const edge = await proxying({ url: backend.url.replace('http:', 'https:') })
    for (const how of ['end', 'destroy', 'resetAndDestroy'] as const) {
      hangUp = (socket) => socket[how]()
      const client = RawClient.connect(edge.port)
      client.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
      expect(await client.closed(), how).toMatch(/^HTTP\/1\.1 502 .*X-Edge-Reason: backend_(?:refused|reset)\r\n/s)
      expect(await edge.metric('edge_proxy_open_requests'), how).toBe(0)
      expect(await edge.metric('edge_backend_connections'), how).toBe(0)
    }
  })
})
