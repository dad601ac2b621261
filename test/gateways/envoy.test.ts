import { expect, test } from 'vitest'
import { blockRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeWith } from '../support/describe-with.ts'
import { ENVOY_EXT_AUTHZ_GRPC, ENVOY_EXT_AUTHZ_HTTP, ENVOY_RATE_LIMIT } from '../support/gateways/envoy.ts'
import { behind, startEdge } from '../support/gateways/gateway-setup.ts'
import { statusOf } from '../support/gateways/raw-request.ts'

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
