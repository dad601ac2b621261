import { describe, expect, test } from 'vitest'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyOptions, RawClient } from '../../support/proxy/proxy.ts'
import { Edge, type EdgeOptions } from '../../support/service/edge.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import type { Owner } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

/** Longer than any test. */
const LONG = '600000'
const HALF_A_HEAD = 'GET / HTTP/1.1\r\nHost: a\r\n'

describe.concurrent('at shutdown', () => {
  test('connections that never said anything hold nothing up, on neither port', async (t) => {
    const backend = await HttpBackend.start(undefined, 0, t)
    const edge = await start(t, proxyOptions(backend, { env: { EDGE_SHUTDOWN_MS: LONG, EDGE_ADMIN_PORT: '0' } }))
    const silent = [edge.port, edge.adminPort].map((port) => RawClient.connect(port, t))
    await untilConnected(edge.adminPort, 2)
    await edge.stop()
    await until(() => silent.every(({ isClosed }) => isClosed))
  })

  test('a head that never becomes whole is cut long before EDGE_SHUTDOWN_MS', async (t) => {
    const backend = await HttpBackend.start(undefined, 0, t)
    const edge = await start(t, proxyOptions(backend, { env: { EDGE_SHUTDOWN_MS: LONG } }))
    const client = RawClient.connect(edge.port, t)
    client.send(HALF_A_HEAD)
    await untilConnected(edge.port, 1)
    await edge.stop()
    await until(() => client.isClosed)
    expect(client.received).not.toContain(' 200 ')
  })
})

/** In this process, stopped at the latest when its test ends. */
async function start(t: Owner, options: EdgeOptions): Promise<Edge> {
  const edge = await Edge.start(options)
  t.onTestFinished(() => edge.stop())
  return edge
}

/** That the server has accepted so many, beside the one that asks. */
async function untilConnected(port: number, count: number): Promise<void> {
  await until(async () => (await metricsOf(port)).value('edge_worker_connections{worker="1"}') >= count + 1)
}
