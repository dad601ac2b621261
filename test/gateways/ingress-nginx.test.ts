import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { INGRESS_NGINX } from '../support/gateways/ingress-nginx.ts'

gatewaySuite(INGRESS_NGINX)
