import { expect, test } from 'vitest'
import { codeBlocks, readText } from '../docs/markdown.ts'
import { bundle, policy, rateRule } from '../support/bundles/bundles.ts'
import { describeWith } from '../support/describe-with.ts'
import { example, substituted } from '../support/gateways/gateway.ts'
import { ALICE, behind, edgeAllowing } from '../support/gateways/gateway-setup.ts'
import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { loadBalancerSuite } from '../support/gateways/load-balancer-suite.ts'
import { NGINX, nginxWith } from '../support/gateways/nginx.ts'
import { socketSuite } from '../support/gateways/socket-suite.ts'
import { ask } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running } from '../support/service/running.ts'

gatewaySuite(NGINX)
socketSuite(NGINX)
loadBalancerSuite(nginxWith(`set_real_ip_from 127.0.0.1;\nreal_ip_header X-Forwarded-For;\n${example('nginx/edge.conf')}`))

describeWith(NGINX.missing, 'nginx with the documented configuration, and a cost by path', () => {
  test('charges it however the path is spelled, and no forged one', async () => {
    const rules = [rateRule('units', [], { rate: '1000/minute', cost: { header: 'x-request-cost' } })]
    const edge = await running({ bundle: bundle(1, policy('p', { rules })), clock: new ManualClock() })
    const { port } = await behind(nginxWith(costByPath()), edge)
    const left = []
    for (const path of ['/v1/orders', '/v1/exports', '/v1//exports?x', '/%76%31/exports/7', '/v1/x/../exports']) {
      const { headers } = await ask(port, 'GET', path, [...ALICE, ['X-Request-Cost', '0.01']])
      left.push(headers['ratelimit-remaining'])
    }
    expect(left).toEqual(['999', '979', '959', '939', '919'])
  })
})

describeWith(NGINX.missing, 'nginx that fails open, and does not know what edge said', () => {
  test('lets nothing through', async () => {
    const unasked = substituted(example('nginx/edge.conf'), { 'auth_request_set $edge_status $upstream_status;': 'set $edge_status "";' })
    const { port, backend } = await behind(nginxWith(unasked), await edgeAllowing(1), 'fail open')
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(200)
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(503)
    expect(backend.seen).toHaveLength(1)
  })
})

/** What the page says to change. */
function costByPath(): string {
  const page = readText('docs/gateways/nginx.md')
  const map = codeBlocks(page, 'nginx')[1]!
  const [set, field] = ['set $request_cost $cost_of_path;', 'proxy_set_header X-Request-Cost $request_cost;']
  if (!page.includes(set) || !page.includes(field)) throw new Error('the page has changed')
  const charged = substituted(example('nginx/edge.conf'), {
    'location / {': `location / {\n${set}`,
    'proxy_set_header X-Request-Cost "";': field,
  })
  return `${map}${charged}`
}
