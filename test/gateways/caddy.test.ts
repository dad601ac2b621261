import { CADDY } from '../support/gateways/caddy.ts'
import { gatewaySuite } from '../support/gateways/gateway-suite.ts'

gatewaySuite(CADDY)
