import { expect, test } from 'vitest'
import { describeWith } from '../support/describe-with.ts'
import { example, substituted } from '../support/gateways/gateway.ts'
import { behind } from '../support/gateways/gateway-setup.ts'
import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { recordingEdge } from '../support/gateways/recording-edge.ts'
import { TRAEFIK, traefikWith } from '../support/gateways/traefik.ts'
import { ask } from '../support/service/http.ts'

gatewaySuite(TRAEFIK)

describeWith(TRAEFIK.missing, 'Traefik with the documented configuration, behind another load balancer', () => {
  test('believes the addresses that it names, and no client about the method and the path', async () => {
    const asked = await recordingEdge(TRAEFIK)
    const { port } = await behind(behindLoadBalancer(), asked)
    await ask(port, 'GET', '/original', [
      ['X-Forwarded-For', '203.0.113.9'],
      ['X-Forwarded-Method', 'DELETE'],
      ['X-Forwarded-Uri', '/free'],
    ])
    expect(TRAEFIK.asked(asked.seen[0]!)).toMatchObject({ method: 'GET', uri: '/original' })
    expect(asked.seen[0]!.headers['x-forwarded-for']).toMatch(/^203\.0\.113\.9(, 127\.0\.0\.1)+$/)
  })
})

/** What the page says to change. */
function behindLoadBalancer(): typeof TRAEFIK {
  const settings = substituted(example('traefik/traefik.yml'), {
    'address: ":80"\n': 'address: ":80"\n    forwardedHeaders: { trustedIPs: ["127.0.0.1/32"] }\n',
  })
  const routes = substituted(example('traefik/dynamic.yml'), {
    'forwardAuth:\n': 'forwardAuth:\n        trustForwardHeader: true\n',
    'customRequestHeaders:\n': 'customRequestHeaders:\n          X-Forwarded-Method: ""\n          X-Forwarded-Uri: ""\n',
  })
  return traefikWith(settings, routes)
}
