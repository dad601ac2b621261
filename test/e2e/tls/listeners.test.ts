import { credentials } from '@grpc/grpc-js'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN } from '../../support/admin/admin-client.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { call, grpcClient, grpcFields } from '../../support/grpc/grpc-client.ts'
import { jsClient } from '../../support/grpc/js-client.ts'
import { ask } from '../../support/service/http.ts'
import { metric } from '../../support/service/metrics.ts'
import { finished, running, serving } from '../../support/service/running.ts'
import { TlsClient } from '../../support/tls/tls-client.ts'
import { ownPair, QUESTION, tlsEnv } from '../../support/tls/tls-edge.ts'
import { until } from '../../support/until.ts'

const HEALTH = grpcFields('/grpc.health.v1.Health/Check')
const EMPTY_MESSAGE = Buffer.alloc(5)

describe('gRPC', () => {
  test('is served over TLS, one call and many at once', async () => {
    const edge = await running({ bundle: bundle(1), env: { ...tlsEnv(await ownPair()), EDGE_GRPC_PORT: '0' } })
    const session = grpcClient(edge.grpcPort, { rejectUnauthorized: false })
    expect(await call(session, HEALTH, EMPTY_MESSAGE)).toMatchObject({ httpStatus: 200, status: 0 })
    expect(session.alpnProtocol).toBe('h2')
    const calls = await Promise.all(Array.from({ length: 50 }, () => call(session, HEALTH, EMPTY_MESSAGE)))
    expect(calls.every(({ status }) => status === 0)).toBe(true)
  })

  test('is served to a client that checks the certificate', async () => {
    const pair = await ownPair('DNS:localhost')
    const edge = await running({ bundle: bundle(1), env: { ...tlsEnv(pair), EDGE_GRPC_PORT: '0' } })
    const client = jsClient(
      `localhost:${edge.grpcPort}`,
      'health.proto',
      'grpc.health.v1.Health',
      undefined,
      credentials.createSsl(pair.cert),
    )
    expect((await client.call<{ status: string }>('Check', {})).response?.status).toBe('SERVING')
  })

  test('is refused to clients that speak only HTTP/1.1, as HTTP is to those that speak only HTTP/2', async () => {
    const edge = await running({ bundle: bundle(1), env: { ...tlsEnv(await ownPair()), EDGE_GRPC_PORT: '0', EDGE_ADMIN_PORT: '0' } })
    const clients = [
      await TlsClient.connected(edge.grpcPort, { ALPNProtocols: ['http/1.1'] }),
      await TlsClient.connected(edge.port, { ALPNProtocols: ['h2'] }),
    ]
    expect(clients.map(({ isSecure }) => isSecure)).toEqual([false, false])
    for (const listener of ['main', 'grpc']) {
      await until(async () => (await metric(edge.adminPort, failures(listener, 'protocol'))) === 1)
    }
  })

  test('may stay plain beside a port that is not', async () => {
    const edge = await running({ bundle: bundle(1), env: { ...tlsEnv(await ownPair()), EDGE_GRPC_PORT: '0', EDGE_TLS_LISTENERS: 'main' } })
    expect(await call(grpcClient(edge.grpcPort), HEALTH, EMPTY_MESSAGE)).toMatchObject({ status: 0 })
    expect(await (await TlsClient.connected(edge.port)).ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
  })
})

describe('the admin port', () => {
  test('stays plain unless it is named', async () => {
    const edge = await running({ bundle: bundle(1), env: { ...tlsEnv(await ownPair()), EDGE_ADMIN_PORT: '0' } })
    expect((await ask(edge.adminPort, 'GET', '/livez')).status).toBe(200)
  })

  test('speaks TLS if it is named, and its sessions are Secure', async () => {
    const env = { ...tlsEnv(await ownPair()), ...ADMIN_ENV, EDGE_TLS_LISTENERS: 'admin', EDGE_TRUSTED_PROXIES: '192.0.2.1' }
    const edge = await running({ bundle: bundle(1), env })
    expect((await ask(edge.port, 'GET', '/livez')).status).toBe(404)
    const client = await TlsClient.connected(edge.adminPort)
    const body = JSON.stringify({ token: ADMIN_TOKEN, actor: 'anna' })
    const login = `POST /admin/v1/session HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    const response = await client.ask(login)
    expect(response).toMatch(/^Set-Cookie: .*; Secure\r$/m)
  })

  test('is reached by the commands of operators, if they trust its certificate', async () => {
    const pair = await ownPair('DNS:localhost')
    const cli = await serving({ ...tlsEnv(pair), ...ADMIN_ENV, EDGE_TLS_LISTENERS: 'main,admin', EDGE_HOST: '0.0.0.0' })
    const [, port] = /admin +https:\/\/\S+?:(\d+)/.exec(cli.stdout)!
    expect(cli.stderr).not.toContain('admin_token_unencrypted')
    const operator = { EDGE_ADMIN_URL: `https://localhost:${port}`, EDGE_ADMIN_TOKEN: ADMIN_TOKEN }
    const trusting = await finished(['status'], { ...operator, NODE_EXTRA_CA_CERTS: pair.path })
    expect([trusting.status, trusting.stderr]).toEqual([0, ''])
    expect((await finished(['status'], operator)).status).not.toBe(0)
  })
})

function failures(listener: string, reason: string): string {
  return `edge_tls_handshake_failures_total{listener="${listener}",reason="${reason}"}`
}
