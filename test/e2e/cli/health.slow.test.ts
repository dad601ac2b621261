import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { health, READY, unready } from '../../support/service/asked-health.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { ownPair, tlsEnv } from '../../support/tls/tls-edge.ts'

describe.concurrent('edge health', () => {
  test('asks where EDGE_ADMIN_HOST or EDGE_HOST say', async (t) => {
    const edge = await running({ bundle: bundle(7), env: { EDGE_ADMIN_PORT: '0' } }, t)
    const port = String(edge.adminPort)
    expect(await health(t, { EDGE_ADMIN_PORT: port, EDGE_HOST: '0.0.0.0', EDGE_PORT: '1' })).toEqual(READY)
    expect(await health(t, { EDGE_ADMIN_PORT: port, EDGE_ADMIN_HOST: '127.0.0.2' })).toEqual(
      unready(/^edge health: http:\/\/127\.0\.0\.2:\d+ is unreachable: nothing listens there\n$/),
    )
  })

  test('asks the main port where there is no other, and a unix socket where there is no port', async (t) => {
    const socket = join(await scratchDirectory(t), 'edge.sock')
    const edge = await running({ bundle: bundle(7), env: { EDGE_SOCKET: socket } }, t)
    expect(await health(t, { EDGE_PORT: String(edge.port) })).toEqual(READY)
    expect(await health(t, { EDGE_PORT: 'off', EDGE_SOCKET: socket })).toEqual(READY)
  })

  test('asks over TLS where the port speaks it, whatever name the certificate is for', async (t) => {
    const pair = await ownPair('DNS:edge.example', t)
    const env = { ...tlsEnv(pair), EDGE_TLS_LISTENERS: 'main,admin' }
    const edge = await running({ bundle: bundle(7), env: { ...env, EDGE_ADMIN_PORT: '0' } }, t)
    expect(await health(t, { ...env, EDGE_ADMIN_PORT: String(edge.adminPort) })).toEqual(READY)
    const strict = { EDGE_TLS_CLIENT_AUTH: 'require', EDGE_TLS_CLIENT_CA_FILE: pair.path }
    expect(await health(t, { ...env, EDGE_ADMIN_PORT: String(edge.adminPort), ...strict })).toEqual(
      unready(/EDGE_TLS_CLIENT_AUTH: this command has no cert/),
    )
  })

  test('takes nothing but an answer of edge for ready, and never more than a few bytes of it', async (t) => {
    const answers: readonly (readonly [RequestListener, RegExp])[] = [
      [(_req, res) => void res.end('{"status":"fine"}'), /does not respond as edge does: status 200\n$/],
      [(_req, res) => void res.end('null'), /does not respond as edge does: status 200\n$/],
      [(_req, res) => void res.writeHead(302, { Location: '/elsewhere' }).end('ready'), /does not respond as edge does: status 302\n$/],
      [(_req, res) => void res.writeHead(503).end('{"status":"not_ready","reason":"a\\u001bb"}'), /: not ready: a\S+b\n$/],
      [(_req, res) => void res.end('x'.repeat(100_000)), /the response has more than 64 KiB\n$/],
      [(_req, res) => void res.end('{"status":"ready","policy_version":{"toString":1}}'), /does not respond as edge does: status 200\n$/],
      [
        (_req, res) => void res.writeHead(503).end('{"status":"ready","policy_version":"1"}'),
        /does not respond as edge does: status 503\n$/,
      ],
      [(_req, res) => void res.writeHead(503).end('{"status":"not_ready","reason":"constructor"}'), /: not ready: constructor\n$/],
      [(req) => void req.socket.destroy(), / is unreachable: socket hang up\n$/],
      [({ socket }) => void socket.write(SWITCHED), /does not respond as edge does: status 101\n$/],
      [({ socket }) => void socket.end('SSH-2.0-none\r\n'), / is unreachable: Parse Error/],
    ]
    for (const [listener, reason] of answers) expect(await health(t, { EDGE_PORT: await stranger(t, listener) })).toEqual(unready(reason))
  })

  test.for<[string, RequestListener]>([
    ['does not respond', () => {}],
    ['never ends its response', (_req, res) => void res.write('{"status":"ready","policy_version":"1"}')],
    ['never begins one', ({ socket }) => void setInterval(() => socket.write('HTTP/1.1 100 Continue\r\n\r\n'), 50).unref()],
  ])('does not wait for what %s', async ([, listener], t) => {
    expect(await health(t, { EDGE_PORT: await stranger(t, listener) })).toEqual(unready(/ did not respond within 5 s\n$/))
  })

  test('takes no port that speaks TLS, where the settings do not say so, for ready', async (t) => {
    const env = { ...tlsEnv(await ownPair('DNS:edge.example', t)), EDGE_TLS_LISTENERS: 'main' }
    const edge = await running({ bundle: bundle(7), env }, t)
    expect(await health(t, { EDGE_PORT: String(edge.port) })).toMatchObject({ status: 1, stdout: '' })
  })

  test.for<[Record<string, string>, RegExp]>([
    [{ EDGE_ADMIN_PORT: '0' }, /EDGE_ADMIN_PORT: expected a port other than 0/],
    [{ EDGE_ADMIN_PORT: 'http' }, /EDGE_ADMIN_PORT: expected a port from 0 to 65535/],
    [{ EDGE_PORT: 'off', EDGE_GRPC_PORT: '8081' }, /EDGE_ADMIN_PORT: expected a port, because/],
  ])('%j: a sentence, and 1', async ([env, sentence], t) => {
    expect(await health(t, env)).toEqual(unready(sentence))
  })

  test('takes no arguments, and has a help text', async (t) => {
    expect(await health(t, {}, '--help')).toEqual({ status: 0, stdout: expect.stringMatching(/^Usage: edge health\n/), stderr: '' })
    expect(await health(t, {}, '--port', '1')).toEqual(unready(/^edge health: Unknown option '--port' \(set EDGE_PORT instead\)/))
  })
})

const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n'

async function stranger(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return String((server.address() as AddressInfo).port)
}
