import { ENVOY_EXT_AUTHZ_HTTP } from '../support/gateways/envoy.ts'
import { gatewaySuite } from '../support/gateways/gateway-suite.ts'

gatewaySuite(ENVOY_EXT_AUTHZ_HTTP)
