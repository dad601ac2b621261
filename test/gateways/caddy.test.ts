import { CADDY, caddyWith } from '../support/gateways/caddy.ts'
import { example, substituted } from '../support/gateways/gateway.ts'
import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { loadBalancerSuite } from '../support/gateways/load-balancer-suite.ts'
import { socketSuite } from '../support/gateways/socket-suite.ts'

gatewaySuite(CADDY)
socketSuite(CADDY)
loadBalancerSuite(caddyWith(substituted(example('caddy/Caddyfile'), { 'method GET\n': 'method GET\n\t\ttrusted_proxies 127.0.0.1/32\n' })))
