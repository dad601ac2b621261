import { expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'

const OWN_PORT = { EDGE_ADMIN_PORT: '0' }
const SECRET = { EDGE_DEBUG_SESSION_SECRET: 'correct horse battery' }
const SCRAPE = 'GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n'
const GUESS = 'POST /v1/debug/session HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nX-Edge-Debug-Secret: wrong\r\n\r\n'

test('a worker that dies in the middle of requests for operators costs those alone', async () => {
  const mortal = await mortalEdge(2, { bundle: bundle(1), env: { ...OWN_PORT, ...SECRET } })
  const admin = mortal.edge.adminPort
  const metricsBefore = await metricsOf(admin)
  const clients = Array.from({ length: 40 }, (_, i) => {
    const client = RawClient.connect(admin)
    client.send(i % 2 === 0 ? GUESS : SCRAPE)
    return client
  })
  await until(() => clients.filter(({ received }) => received !== '').length > 20)
  mortal.age()
  await mortal.host.terminate(1)
  await mortal.untilReplaced()
  await until(() => clients.every(({ received, isClosed }) => isClosed || /^HTTP\/1\.1 (?:200|403) /.test(received)))
  expect((await ask(admin, 'GET', '/readyz')).status).toBe(200)
  expect((await mortal.edge.decide()).status).toBe(200)
  const metrics = await metricsOf(admin)
  expect(metrics.value('edge_workers')).toBe(2)
  for (const [series, value] of metricsBefore.counters()) expect([series, metrics.value(series) >= value]).toEqual([series, true])
})
