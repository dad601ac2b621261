import { expect, test } from 'vitest'
import { blockRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeWith } from '../support/describe-with.ts'
import { CADDY, caddyWith } from '../support/gateways/caddy.ts'
import { sendsNoQuestionToTheBackend } from '../support/gateways/connection-suite.ts'
import { example, substituted } from '../support/gateways/gateway.ts'
import { behind, startEdge } from '../support/gateways/gateway-setup.ts'
import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { loadBalancerSuite } from '../support/gateways/load-balancer-suite.ts'
import { statusOf } from '../support/gateways/raw-request.ts'
import { socketSuite } from '../support/gateways/socket-suite.ts'

const CADDYFILE = example('caddy/Caddyfile')
// More threads than cores, and a garbage collector that never rests: goroutines start late.
const BUSY = { GOMAXPROCS: '8', GOGC: '1' }

gatewaySuite(CADDY)
socketSuite(CADDY)
loadBalancerSuite(caddyWith(substituted(CADDYFILE, { 'method GET\n': 'method GET\n\t\ttrusted_proxies 127.0.0.1/32\n' })))

describeWith(CADDY.missing, 'Caddy with the documented configuration, and busy', () => {
  sendsNoQuestionToTheBackend(caddyWith(CADDYFILE, BUSY))
})

describeWith(CADDY.missing, 'Caddy with the documented configuration, and requests for the path that it asks at', () => {
  test.each(['/v1/forward-auth', '/v1/forward-auth?', '/v1/forward-auth?{http.request.uuid}'])(
    '%s: edge gets no body, so none can break the question',
    async (target) => {
      const edge = await startEdge({ bundle: bundle(1, policy('p', { rules: [blockRule('all')] })) })
      const { port, backend } = await behind(CADDY, edge, 'fail open')
      // What follows the head is no chunk.
      const fields = 'Host: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n'
      expect([await statusOf(port, target, fields, 'no chunk\r\n'), backend.seen.length]).toEqual([403, 0])
    },
  )
})
