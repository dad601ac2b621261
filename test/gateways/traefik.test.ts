import { readText } from '../docs/markdown.ts'
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
    '          # Clients must not set these themselves.\n': `          # Clients must not set these themselves.\n${cleared()}`,
  })
  return traefikWith(settings, routes)
}

function cleared(): string {
  const page = readText('docs/gateways/traefik.md')
  return ['X-Forwarded-Method', 'X-Forwarded-Uri', 'X-Forwarded-Host']
    .map((name) => {
      if (!page.includes(`\`${name}\``)) throw new Error('the page has changed')
      return `          ${name}: ""\n`
    })
    .join('')
}
