import { expect, test } from 'vitest'
import { describeWith } from '../support/describe-with.ts'
import { behind, edgeAllowing } from '../support/gateways/gateway-setup.ts'
import { gatewaySuite } from '../support/gateways/gateway-suite.ts'
import { INGRESS_NGINX } from '../support/gateways/ingress-nginx.ts'
import { statusOf } from '../support/gateways/raw-request.ts'

gatewaySuite(INGRESS_NGINX)

describeWith(INGRESS_NGINX.missing, 'ingress-nginx with the documented configuration, and a forged Host', () => {
  test.each(['a?x', 'a#x', 'a?', 'free.example?/', 'free.example#@127.0.0.1'])(
    'refuses %s, which would hide the path in X-Original-URL',
    async (host) => {
      for (const variant of ['fail closed', 'fail open'] as const) {
        const edge = await edgeAllowing(1)
        const { port, backend } = await behind(INGRESS_NGINX, edge, variant)
        expect([await statusOf(port, '/api', `Host: ${host}\r\n`), backend.seen.length]).toEqual([400, 0])
      }
    },
  )
})
