import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { TRAEFIK } from '../support/gateways/traefik.ts'

gatewaySuite(TRAEFIK)
