import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { CADDY } from '../support/gateways/caddy.ts'

gatewaySuite(CADDY)
