import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { NGINX } from '../support/gateways/nginx.ts'

gatewaySuite(NGINX)
