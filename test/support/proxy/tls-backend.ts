import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { expect } from 'vitest'
import type { Cli } from '../service/cli.ts'
import { type Answer, ask } from '../service/http.ts'
import { scratchDirectory, thisTest } from '../service/running.ts'
import { selfSigned } from '../service/self-signed.ts'

interface SeenHandshake {
  readonly serverName: string | false | null
  readonly protocol: string | false | null
  readonly host: string | undefined
  readonly url: string | undefined
}

export interface TlsBackend {
  readonly certificate: string
  readonly port: number
  handler: RequestListener
  readonly seen: SeenHandshake[]
  connections(): number
  lastConnection(): Socket
}

/** A server with a certificate of its own making, for these names, that sends back what it gets. */
export async function startTlsBackend(names: string, owner = thisTest): Promise<TlsBackend> {
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

export async function expectEcho(cli: Cli, { seen, port }: TlsBackend, host: string, serverName: string | false): Promise<void> {
  expect(await ask(cli.port, 'POST', '/a?b', [], 'body')).toMatchObject({ status: 200, body: 'body' })
  expect(await ask(cli.port, 'POST', '/c', [], 'again')).toMatchObject({ status: 200, body: 'again' })
  expect(seen.splice(0)).toMatchObject([
    { serverName, protocol: 'http/1.1', host: `${host}:${port}`, url: '/base/a?b' },
    { serverName, url: '/base/c' },
  ])
}

export function expectRefused({ status, headers }: Answer): void {
  expect([status, headers['x-edge-reason']]).toEqual([502, 'backend_refused'])
}

/** What is logged then. */
export const UNTRUSTED: unknown = expect.objectContaining({
  event: 'backend_failed',
  reason: 'backend_refused',
  detail: expect.stringMatching(/certificate|altnames/i),
})
