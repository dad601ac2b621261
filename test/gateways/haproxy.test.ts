import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { HAPROXY } from '../support/gateways/haproxy.ts'

gatewaySuite(HAPROXY)
