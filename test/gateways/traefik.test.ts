import { example, type Gateway, substituted } from '../support/gateways/gateway.ts'
import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { loadBalancerSuite } from '../support/gateways/load-balancer-suite.ts'
import { TRAEFIK, traefikWith } from '../support/gateways/traefik.ts'

gatewaySuite(TRAEFIK)
loadBalancerSuite(behindLoadBalancer())

/** What the page says to change. */
function behindLoadBalancer(): Gateway {
  const settings = substituted(example('traefik/traefik.yml'), {
    'address: ":80"\n': 'address: ":80"\n    forwardedHeaders: { trustedIPs: ["127.0.0.1/32"] }\n',
  })
  const routes = substituted(example('traefik/dynamic.yml'), {
    'forwardAuth:\n': 'forwardAuth:\n        trustForwardHeader: true\n',
    'customRequestHeaders:\n':
      'customRequestHeaders:\n          X-Forwarded-Method: ""\n          X-Forwarded-Uri: ""\n          X-Forwarded-Host: ""\n',
  })
  return traefikWith(settings, routes)
}
