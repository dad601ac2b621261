import { expect, test } from 'vitest'
import { readText } from '../docs/markdown.ts'
import { describeWith } from '../support/describe-with.ts'
import { example, substituted, variantOf } from '../support/gateways/gateway.ts'
import { behind, edgeAllowing } from '../support/gateways/gateway-setup.ts'
import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { HAPROXY, haproxyWith } from '../support/gateways/haproxy.ts'
import { loadBalancerSuite } from '../support/gateways/load-balancer-suite.ts'
import { socketSuite } from '../support/gateways/socket-suite.ts'
import { ask } from '../support/service/http.ts'

gatewaySuite(HAPROXY)
socketSuite(HAPROXY)
loadBalancerSuite(haproxyWith({ cfg: behindLoadBalancer() }))

describeWith(HAPROXY.missing, 'HAProxy with the documented configuration, and an error in Lua', () => {
  test('refuses with 503, even where it fails open', async () => {
    const broken = variantOf(example('haproxy/edge.lua'), 'fail open').replace('core.httpclient()', 'core.no_such_client()')
    const { port, backend } = await behind(haproxyWith({ lua: broken }), await edgeAllowing(1))
    expect([(await ask(port, 'GET', '/')).status, backend.seen.length]).toEqual([503, 0])
  })
})

/** What the page says to change. */
function behindLoadBalancer(): string {
  const line = 'http-request set-src hdr_ip(x-forwarded-for,-1) if { src 10.0.0.0/8 }'
  if (!readText('docs/gateways/haproxy.md').includes(line)) throw new Error('the page has changed')
  return substituted(example('haproxy/haproxy.cfg'), {
    'http-request lua.edge\n': `${line.replace('10.0.0.0/8', '127.0.0.1')}\n    http-request lua.edge\n`,
  })
}
