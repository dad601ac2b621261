import { describeWith } from '../support/describe-with.ts'
import { CADDY, caddyWith } from '../support/gateways/caddy.ts'
import { sendsNoQuestionToTheBackend } from '../support/gateways/connection-suite.ts'
import { example, substituted } from '../support/gateways/gateway.ts'
import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { loadBalancerSuite } from '../support/gateways/load-balancer-suite.ts'
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
