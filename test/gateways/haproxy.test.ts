import { expect, test } from 'vitest'
import { describeWith } from '../support/describe-with.ts'
import { example, variantOf } from '../support/gateways/gateway.ts'
import { behind, edgeAllowing } from '../support/gateways/gateway-setup.ts'
import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { HAPROXY, haproxyWith } from '../support/gateways/haproxy.ts'
import { ask } from '../support/service/http.ts'

gatewaySuite(HAPROXY)

describeWith(HAPROXY.missing, 'HAProxy with the documented configuration, and an error in Lua', () => {
  test('refuses with 503, even where it fails open', async () => {
    const broken = variantOf(example('haproxy/edge.lua'), 'fail open').replace('core.httpclient()', 'core.no_such_client()')
    const { port, backend } = await behind(haproxyWith(broken), await edgeAllowing(1))
    expect([(await ask(port, 'GET', '/')).status, backend.seen.length]).toEqual([503, 0])
  })
})
