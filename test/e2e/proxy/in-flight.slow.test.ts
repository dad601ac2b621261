import { expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { inFlight, inFlightBackend } from '../../support/proxy/in-flight.ts'
import { proxyEnv, statusesIn } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'

test('a worker that dies takes its own requests with it, on both sides, and leaves room for others', async () => {
  const backend = await inFlightBackend()
  // As many as are in flight: the next ones need the places of the dead.
  const env = { ...proxyEnv(backend.url), EDGE_BACKEND_MAX_CONNECTIONS: '4' }
  const mortal = await mortalEdge(2, { bundle: bundle(1), env })
  const { waiting, uploading, streaming, tunnel } = await inFlight(mortal.port, backend)
  const clients = [waiting, uploading, streaming, tunnel]
  await until(async () => (await metricsOf(mortal.port)).value('edge_proxy_open_tunnels') === 1)
  mortal.age()
  for (const [i, worker] of [1, 2].entries()) {
    await mortal.host.terminate(worker)
    await mortal.untilReplaced(i + 1)
  }

  await until(() => clients.every(({ isClosed }) => isClosed) && backend.openConnections === 0)
  expect([waiting, uploading].map(({ received }) => statusesIn(received))).toEqual([[], []])
  expect(streaming.received).not.toContain('\r\n0\r\n')
  const metrics = await metricsOf(mortal.port)
  const gauges = ['edge_proxy_open_requests', 'edge_proxy_open_tunnels', 'edge_backend_connections', 'edge_backend_queue_requests']
  expect(gauges.map((gauge) => metrics.value(gauge))).toEqual([0, 0, 0, 0])
  const answers = await Promise.all(Array.from({ length: 8 }, () => ask(mortal.port, 'GET', '/')))
  expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200))
})
