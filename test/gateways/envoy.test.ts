import { join } from 'node:path'
import { expect, test } from 'vitest'
import { blockRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { describeWith } from '../support/describe-with.ts'
import {
  behindLoadBalancer,
  ENVOY_EXT_AUTHZ_GRPC,
  ENVOY_EXT_AUTHZ_HTTP,
  ENVOY_RATE_LIMIT,
  overTls,
  settling,
  throughSocket,
} from '../support/gateways/envoy.ts'
import { behind, startEdge } from '../support/gateways/gateway-setup.ts'
import { statusOf } from '../support/gateways/raw-request.ts'
import { ask } from '../support/service/http.ts'
import { scratchDirectory } from '../support/service/running.ts'
import { ownPair, tlsEnv } from '../support/tls/tls-edge.ts'

const HOST = 'Host: 127.0.0.1\r\n'
/** What no text of gRPC may hold, in each place that Envoy tells edge of. */
const BYTES = '\xff\xfe\xc3('
const REQUESTS = [
  ['/', `${HOST}X-Api-Key: ${BYTES}\r\n`],
  ['/', `${HOST}X-Other: ${BYTES}\r\n`],
  ['/', `${HOST}X-Api-Key:\r\n`],
  ['/', `${HOST}X-Api-Key: ${'x'.repeat(20_000)}\r\n`],
  [`/${BYTES}`, HOST],
  ['/', `Host: ${BYTES}\r\n`],
] as const

describeWith(ENVOY_EXT_AUTHZ_HTTP.missing, 'Envoy, set to fail open', () => {
  test.for([
    { gateway: ENVOY_EXT_AUTHZ_HTTP, closed: { rules: [blockRule('all')] } },
    { gateway: ENVOY_EXT_AUTHZ_GRPC, closed: { rules: [blockRule('all')] } },
    { gateway: ENVOY_RATE_LIMIT, closed: { selector: { domain: 'api' }, rules: [blockRule('all', { 'descriptor:remote_address': '*' })] } },
  ])('$gateway.name is opened by no bytes that a client sends', async ({ gateway, closed }) => {
    const { port, backend } = await behind(gateway, await startEdge({ bundle: bundle(1, policy('closed', closed)) }), 'fail open')
    const passed = []
    for (const [target, fields] of REQUESTS) {
      const status = await statusOf(port, target, fields)
      if (status < 400 || status >= 500) passed.push([target, fields, status])
    }
    expect([passed, backend.seen.length]).toEqual([[], 0])
  })
})

describeWith(ENVOY_EXT_AUTHZ_HTTP.missing, 'Envoy, asking edge for reservations', () => {
  test('keeps them from clients, who could settle them', async () => {
    const rules = [llmRule('r', [], { tokens_per_day: 100_000 })]
    const edge = await startEdge({ bundle: bundle(1, policy('p', { rules })) })
    const { port } = await behind(settling(ENVOY_EXT_AUTHZ_HTTP, 'envoy-ext-authz-http'), edge)
    const { status, headers } = await ask(port, 'POST', '/')
    expect([status, headers['ratelimit-limit'], headers['x-edge-reservation']]).toEqual([200, '100000', undefined])
  })
})

describeWith(ENVOY_EXT_AUTHZ_HTTP.missing, 'Envoy behind another load balancer', () => {
  const client = '203.0.113.9'

  test('ext_authz: edge reads the address that the load balancer names', async () => {
    const gateway = behindLoadBalancer(ENVOY_EXT_AUTHZ_GRPC, 'envoy-ext-authz-grpc')
    const rules = [blockRule('banned', { 'ip:address': client })]
    const env = { EDGE_TRUSTED_PROXIES: `127.0.0.1/32,${gateway.loopbackAddress ?? '127.0.0.1'}/32` }
    const { port } = await behind(gateway, await startEdge({ bundle: bundle(1, policy('p', { rules })), env }))
    expect((await ask(port, 'GET', '/', [['X-Forwarded-For', client]])).status).toBe(403)
    // What the client said stands to the left of what the load balancer says.
    expect((await ask(port, 'GET', '/', [['X-Forwarded-For', `${client}, 192.0.2.7`]])).status).toBe(200)
  })

  test('rate limit service: the descriptor has the address that the load balancer names', async () => {
    const gateway = behindLoadBalancer(ENVOY_RATE_LIMIT, 'envoy-rate-limit')
    const rules = [blockRule('banned', { 'descriptor:remote_address': client })]
    const { port } = await behind(gateway, await startEdge({ bundle: bundle(1, policy('p', { selector: { domain: 'api' }, rules })) }))
    expect((await ask(port, 'GET', '/', [['X-Forwarded-For', client]])).status).toBe(429)
    expect((await ask(port, 'GET', '/', [['X-Forwarded-For', `${client}, 192.0.2.7`]])).status).toBe(200)
  })
})

describeWith(ENVOY_EXT_AUTHZ_HTTP.missing, 'Envoy with a unix socket', () => {
  test('asks edge through it', async () => {
    const path = join(await scratchDirectory(), 'grpc.sock')
    const gateway = throughSocket(ENVOY_EXT_AUTHZ_GRPC, 'envoy-ext-authz-grpc', path)
    const rules = [blockRule('banned', { 'header:x-api-key': 'mallory' })]
    const edge = await startEdge({ bundle: bundle(1, policy('p', { rules })), env: { EDGE_GRPC_SOCKET: path } })
    const { port } = await behind(gateway, edge)
    expect((await ask(port, 'GET', '/', [['X-Api-Key', 'mallory']])).status).toBe(403)
    expect((await ask(port, 'GET', '/', [['X-Api-Key', 'alice']])).status).toBe(200)
  })
})

describeWith(ENVOY_EXT_AUTHZ_GRPC.missing, 'Envoy over TLS', () => {
  test('asks edge through it, if the certificate is one that it trusts', async () => {
    const [pair, stranger] = [await ownPair('DNS:localhost'), await ownPair('DNS:localhost')]
    const rules = [blockRule('banned', { 'header:x-api-key': 'mallory' })]
    const edge = await startEdge({ bundle: bundle(1, policy('p', { rules })), env: tlsEnv(pair) })
    const { port } = await behind(overTls(ENVOY_EXT_AUTHZ_GRPC, 'envoy-ext-authz-grpc', pair.path), edge)
    for (let i = 0; i < 3; i++) {
      expect((await ask(port, 'GET', '/', [['X-Api-Key', 'mallory']])).status).toBe(403)
      expect((await ask(port, 'GET', '/', [['X-Api-Key', 'alice']])).status).toBe(200)
    }
    const wary = await behind(overTls(ENVOY_EXT_AUTHZ_GRPC, 'envoy-ext-authz-grpc', stranger.path), edge)
    expect((await ask(wary.port, 'GET', '/', [['X-Api-Key', 'alice']])).status).toBe(503)
  })
})
