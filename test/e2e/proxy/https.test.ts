import { writeFile } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { beforeAll, describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, proxyEnv, proxying, RawClient } from '../../support/proxy/proxy.ts'
import type { Cli } from '../../support/service/cli.ts'
import { type Answer, ask } from '../../support/service/http.ts'
import { describeWithOpenssl } from '../../support/service/openssl-suite.ts'
import { type Environment, scratchDirectory, serving, thisTest } from '../../support/service/running.ts'
import { selfSigned } from '../../support/service/self-signed.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

interface SeenHandshake {
  readonly serverName: string | false | null
  readonly protocol: string | false | null
  readonly host: string | undefined
  readonly url: string | undefined
}

describeWithOpenssl('a backend that speaks TLS', () => {
  const suite = thisSuite()
  let [backend, cli]: [backend: TlsBackend, cli: Cli] = [] as never
  beforeAll(async () => {
    backend = await start('DNS:localhost,IP:127.0.0.1', suite)
    cli = await serve(`https://localhost:${backend.port}/base`, { NODE_EXTRA_CA_CERTS: backend.certificate }, suite)
  })

  test('whose certificate is trusted answers by name', async () => {
    await expectEcho(cli, backend, 'localhost', 'localhost')
  })

  test('whose certificate is trusted answers by address', async () => {
    const byAddress = await serve(`https://127.0.0.1:${backend.port}/base`, { NODE_EXTRA_CA_CERTS: backend.certificate })
    await expectEcho(byAddress, backend, '127.0.0.1', false)
  })

  test('keeps its connections, and those of EDGE_BACKEND_HOST=client are named as the URL says', async () => {
    const { certificate, port, seen, connections } = await start('DNS:localhost')
    const asked = await serve(`https://localhost:${port}`, { NODE_EXTRA_CA_CERTS: certificate, EDGE_BACKEND_HOST: 'client' })
    for (let i = 0; i < 3; i++) expect((await ask(asked.port, 'POST', '/', [], 'x')).status).toBe(200)
    expect(seen).toMatchObject([{ serverName: 'localhost', host: `127.0.0.1:${asked.port}` }, {}, {}])
    expect(connections()).toBe(1)
  })

  test('a large body passes both ways', async () => {
    const body = 'x'.repeat(5_000_000)
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
      for (let i = 0; i < 10; i++) {
        const received = await answerBytes(cli.port, `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
        expect([path, received.endsWith('4\r\nhalf\r\n0\r\n\r\n')]).toEqual([path, isWhole])
      }
    }
  })

  test.each([
    ['for another name', 'DNS:example.com', 'localhost'],
    ['for a name, asked by address', 'DNS:localhost', '127.0.0.1'],
  ])('with a certificate %s: 502, and nothing is sent', async (_what, names, host) => {
    const { certificate, port, seen } = await start(names)
    const refusing = await serve(`https://${host}:${port}`, { NODE_EXTRA_CA_CERTS: certificate })
    expectRefused(await ask(refusing.port, 'POST', '/', [], 'secret'))
    expect(seen).toEqual([])
    expect(refusing.log).toContainEqual(UNTRUSTED)
  })

  test('with a certificate that nobody trusts: 502, and nothing is sent', async () => {
    const { port, seen } = await start('DNS:localhost')
    const edge = await proxying({ url: `https://localhost:${port}` })
    expectRefused(await ask(edge.port, 'POST', '/', [], 'secret'))
    expect(seen).toEqual([])
    expect(edge.log).toContainEqual(UNTRUSTED)
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

  test.each(['end', 'destroy', 'resetAndDestroy'] as const)('but hangs up (%s): 502, and nobody waits', async (how) => {
    const backend = await RawBackend.start(
      () => {},
      (socket) => void socket.once('data', () => socket[how]()),
    )
    const edge = await proxying({ url: backend.url.replace('http:', 'https:') })
    const client = RawClient.connect(edge.port)
    client.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect(await client.closed()).toMatch(/^HTTP\/1\.1 502 .*X-Edge-Reason: backend_(?:refused|reset)\r\n/s)
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
    expect(await edge.metric('edge_backend_connections')).toBe(0)
  })
})

const UNTRUSTED: unknown = expect.objectContaining({
  event: 'backend_failed',
  reason: 'backend_refused',
  detail: expect.stringMatching(/certificate|altnames/i),
})

async function expectEcho(cli: Cli, { seen, port }: TlsBackend, host: string, serverName: string | false): Promise<void> {
  expect(await ask(cli.port, 'POST', '/a?b', [], 'body')).toMatchObject({ status: 200, body: 'body' })
  expect(await ask(cli.port, 'POST', '/c', [], 'again')).toMatchObject({ status: 200, body: 'again' })
  expect(seen.splice(0)).toMatchObject([
    { serverName, protocol: 'http/1.1', host: `${host}:${port}`, url: '/base/a?b' },
    { serverName, url: '/base/c' },
  ])
}

interface TlsBackend {
  readonly certificate: string
  readonly port: number
  handler: RequestListener
  readonly seen: SeenHandshake[]
  connections(): number
  lastConnection(): Socket
}

/** A server with a certificate of its own making, for these names, that sends back what it gets. */
async function start(names: string, owner = thisTest): Promise<TlsBackend> {
  const { key, cert, path: certificate } = await selfSigned(await scratchDirectory(owner), names)
  let connections = 0
  const seen: SeenHandshake[] = []
  const options = { key, cert, ALPNProtocols: ['h2', 'http/1.1'] }
  const server = createServer(options, (req, res) => backend.handler(req, res))
  const echo: RequestListener = (req, res) => {
    const socket = req.socket as TLSSocket
    const serverName = (socket as unknown as { servername: string | false | null }).servername
    seen.push({ serverName, protocol: socket.alpnProtocol, host: req.headers.host, url: req.url })
    req.pipe(res)
  }
  server.on('tlsClientError', () => {}) // those who do not trust it
  server.on('secureConnection', () => connections++)
  let last: Socket | undefined
  server.on('connection', (socket) => {
    last = socket as Socket
  })
  await new Promise<void>((resolve) => server.listen(0, resolve))
  owner.onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const backend: TlsBackend = { certificate, port, handler: echo, seen, connections: () => connections, lastConnection: () => last! }
  return backend
}

async function serve(backendUrl: string, env: Environment, owner = thisTest): Promise<Cli> {
  const path = join(await scratchDirectory(owner), 'bundle.json')
  await writeFile(path, JSON.stringify(bundle(1)))
  return serving({ ...proxyEnv(backendUrl), EDGE_CONFIG_FILE: path, EDGE_WORKERS: '1', ...env }, [], owner)
}

function expectRefused({ status, headers }: Answer): void {
  expect([status, headers['x-edge-reason']]).toEqual([502, 'backend_refused'])
}
