import { writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { describe, expect, onTestFinished, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { RawBackend } from '../../support/proxy/backend.ts'
import { proxyEnv, proxying, RawClient } from '../../support/proxy/proxy.ts'
import type { Cli } from '../../support/service/cli.ts'
import { type Answer, ask } from '../../support/service/http.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { selfSigned } from '../../support/service/self-signed.ts'
import { until } from '../../support/until.ts'

interface SeenHandshake {
  readonly serverName: string | false | null
  readonly protocol: string | false | null
  readonly host: string | undefined
  readonly url: string | undefined
}

describe('a backend that speaks TLS', () => {
  test('whose certificate is trusted answers, by name and by address', async () => {
    const { certificate, port, seen } = await start('DNS:localhost,IP:127.0.0.1')
    for (const [host, serverName] of [
      ['localhost', 'localhost'],
      ['127.0.0.1', false],
    ] as const) {
      const cli = await serve(`https://${host}:${port}/base`, { NODE_EXTRA_CA_CERTS: certificate })
      expect(await ask(cli.port, 'POST', '/a?b', [], 'body')).toMatchObject({ status: 200, body: 'body' })
      expect(await ask(cli.port, 'POST', '/c', [], 'again')).toMatchObject({ status: 200, body: 'again' })
      expect(seen.splice(0)).toMatchObject([
        { serverName, protocol: 'http/1.1', host: `${host}:${port}`, url: '/base/a?b' },
        { serverName, url: '/base/c' },
      ])
    }
  })

  test('keeps its connections, and those of EDGE_BACKEND_HOST=client are named as the URL says', async () => {
    const { certificate, port, seen, connections } = await start('DNS:localhost')
    const cli = await serve(`https://localhost:${port}`, {
      NODE_EXTRA_CA_CERTS: certificate,
      EDGE_BACKEND_HOST: 'client',
      EDGE_WORKERS: '1',
    })
    for (let i = 0; i < 3; i++) expect((await ask(cli.port, 'POST', '/', [], 'x')).status).toBe(200)
    expect(seen).toMatchObject([{ serverName: 'localhost', host: `127.0.0.1:${cli.port}` }, {}, {}])
    expect(connections()).toBe(1)
  })

  test('a large body passes both ways', async () => {
    const { certificate, port } = await start('DNS:localhost')
    const cli = await serve(`https://localhost:${port}`, { NODE_EXTRA_CA_CERTS: certificate })
    const body = 'x'.repeat(5_000_000)
    const answer = await ask(cli.port, 'POST', '/', [], body)
    expect([answer.status, answer.body === body]).toEqual([200, true])
  })

  test.each([
    ['that nobody trusts', 'DNS:localhost', 'localhost', false],
    ['for another name', 'DNS:example.com', 'localhost', true],
    ['for a name, asked by address', 'DNS:localhost', '127.0.0.1', true],
  ])('with a certificate %s: 502, and nothing is sent', async (_what, names, host, isTrusted) => {
    const { certificate, port, seen } = await start(names)
    const cli = await serve(`https://${host}:${port}`, isTrusted ? { NODE_EXTRA_CA_CERTS: certificate } : {})
    expectRefused(await ask(cli.port, 'POST', '/', [], 'secret'))
    expect(seen).toEqual([])
    expect(cli.log).toContainEqual(
      expect.objectContaining({
        event: 'backend_failed',
        reason: 'backend_refused',
        detail: expect.stringMatching(/certificate|altnames/i),
      }),
    )
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

describe('half an answer over TLS', () => {
  test('is broken off, with or without a farewell', async () => {
    const { certificate, port, server } = await start('DNS:localhost')
    const cli = await serve(`https://localhost:${port}`, { NODE_EXTRA_CA_CERTS: certificate })
    for (const how of ['end', 'destroy'] as const) {
      let backend: TLSSocket | undefined
      server.removeAllListeners('request')
      server.on('request', (req, res) => {
        backend = req.socket as TLSSocket
        res.writeHead(200, { 'Content-Length': 100 })
        res.write('half')
      })
      const client = RawClient.connect(cli.port)
      client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      await client.sees('half')
      backend![how]()
      await client.closed()
      expect([how, client.errorCode, client.hasEnded]).toEqual([how, 'ECONNRESET', false])
    }
  })
})

interface TlsBackend {
  readonly certificate: string
  readonly port: number
  readonly server: Server
  readonly seen: SeenHandshake[]
  connections(): number
}

/** A server with a certificate of its own making, for these names, that sends back what it gets. */
async function start(names: string): Promise<TlsBackend> {
  const { key, cert, path: certificate } = await selfSigned(await scratchDirectory(), names)
  let connections = 0
  const seen: SeenHandshake[] = []
  const options = { key, cert, ALPNProtocols: ['h2', 'http/1.1'] }
  const server = createServer(options, (req, res) => {
    const socket = req.socket as TLSSocket
    const serverName = (socket as unknown as { servername: string | false | null }).servername
    seen.push({ serverName, protocol: socket.alpnProtocol, host: req.headers.host, url: req.url })
    req.pipe(res)
  })
  server.on('tlsClientError', () => {}) // those who do not trust it
  server.on('secureConnection', () => connections++)
  await new Promise<void>((resolve) => server.listen(0, resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { certificate, port: (server.address() as AddressInfo).port, server, seen, connections: () => connections }
}

async function serve(backendUrl: string, env: Readonly<Record<string, string>>): Promise<Cli> {
  const path = join(await scratchDirectory(), 'bundle.json')
  await writeFile(path, JSON.stringify(bundle(1)))
  return serving({ ...proxyEnv(backendUrl), EDGE_CONFIG_FILE: path, ...env })
}

function expectRefused({ status, headers }: Answer): void {
  expect([status, headers['x-edge-reason']]).toEqual([502, 'backend_refused'])
}
