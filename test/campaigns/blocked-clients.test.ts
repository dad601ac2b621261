import { expect, test } from 'vitest'
import { HttpBackend } from '../support/proxy/backend.ts'
import { blockedClientsSuite } from '../support/proxy/blocked-clients-suite.ts'
import { proxying, RawClient } from '../support/proxy/proxy.ts'
import { PROXY_WIRES } from '../support/run/proxy-wire.ts'
import { until } from '../support/until.ts'

for (const wire of PROXY_WIRES) blockedClientsSuite(wire, 2)

test.each(PROXY_WIRES)('a client that takes nothing of our own endpoints is cut: EDGE_PROXY_WIRE=%s', async (wire) => {
  const env = { EDGE_PROXY_WIRE: wire, EDGE_BACKEND_IDLE_TIMEOUT_MS: '100' }
  const edge = await proxying(await HttpBackend.start(), { env })
  const client = RawClient.connect(edge.port)
  client.socket.pause()
  await until(() => {
    if (client.socket.writableLength === 0) client.send('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(1000))
    return client.isClosed
  })
  expect(client.errorCode).toMatch(/ECONNRESET|EPIPE/)
})
