import { expect, test } from 'vitest'
import { blockRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient } from '../../support/proxy/proxy.ts'
import { PROXY_WIRES } from '../../support/run/proxy-wire.ts'
import { until } from '../../support/until.ts'

const PLAIN = 'GET /plain HTTP/1.1\r\nHost: a\r\n\r\n'

test.each(PROXY_WIRES)('a client that takes nothing of its rejections is cut: EDGE_PROXY_WIRE=%s', async (wire) => {
  const rules = [blockRule('r', undefined, { message: 'x'.repeat(1000) })]
  const env = { EDGE_PROXY_WIRE: wire, EDGE_BACKEND_IDLE_TIMEOUT_MS: '100' }
  const edge = await proxying(await HttpBackend.start(), { env, bundle: bundle(1, policy('p', { rules })) })
  const client = RawClient.connect(edge.port)
  client.socket.pause()
  await until(() => {
    if (client.socket.writableLength === 0) client.send(PLAIN.repeat(1000))
    return client.isClosed
  })
  expect(client.errorCode).toMatch(/ECONNRESET|EPIPE/)
})
