import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { listener } from '../../../src/listen/listeners.ts'
import { Exposition } from '../../../src/telemetry/metrics/exposition.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyOptions, RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import type { EdgeOptions } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { portOf } from '../../support/service/port-of.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'

const OWN_PORT = { EDGE_ADMIN_PORT: '0' }
const SECRET = { EDGE_DEBUG_SESSION_SECRET: 'correct horse battery' }
const SCRAPE = 'GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n'
const GUESS = 'POST /v1/debug/session HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nX-Edge-Debug-Secret: wrong\r\n\r\n'

const PLACES: readonly [string, () => Promise<EdgeOptions>][] = [
  ['on a port of its own', async () => ({ bundle: bundle(1), env: OWN_PORT })],
  ['beside decisions', async () => ({ bundle: bundle(1) })],
  ['beside proxied requests', async () => proxyOptions(await HttpBackend.start(), { env: { EDGE_SHUTDOWN_MS: '60000' } })],
]

describe.each(PLACES)('in the middle of a scrape %s', (_where, options) => {
  test('those pipelined behind it have not begun, and begin one after the other', async () => {
    const { client, scrape } = await scraping(options, 5)
    scrape.goOn()
    await until(() => statusesIn(client.received).length === 5)
    expect(scrape.begun()).toBe(5)
  })

  test('a bundle becomes active, and the scrape goes on', async () => {
    const { edge, client, scrape } = await scraping(options)
    await edge.publish(bundle(2, policy('p', { rules: [bucketRule('r', [], 1)] })))
    expect(edge.service.bundle()?.version).toBe('2')
    expect(client.received).toBe('')
    scrape.goOn()
    const { status, body } = await client.next()
    expect([status, body.includes('edge_bundle_info{version="2"')]).toEqual([200, true])
  })

  test('the service stops when the client has all of it', async () => {
    // However long a busy machine takes for the rest
    const spied = (['main', 'admin'] as const).map((name) => vi.spyOn(listener(name), 'closeMs').mockReturnValue(600_000))
    onTestFinished(() => {
      for (const closeMs of spied) closeMs.mockRestore()
    })
    const { edge, client, scrape } = await scraping(options)
    const stopped = edge.stop()
    await until(() => edge.logged('stopping').length > 0)
    scrape.goOn()
    await stopped
    expect(statusesIn(await client.closed())).toEqual([200])
    expect(client.received.slice(client.received.lastIndexOf('edge_build_info'))).toMatch(/\} 1\n$/)
  })
})

test('a scrape that never ends holds up no shutdown', async () => {
  const { edge, client } = await scraping(async () => ({ bundle: bundle(1), env: OWN_PORT }))
  await edge.stop()
  expect(await client.closed()).toBe('')
})

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

/** A service that gathers metrics for a client, until it is told to go on. */
async function scraping(options: () => Promise<EdgeOptions>, times = 1) {
  const edge = await running(await options())
  const scrape = heldScrape()
  const client = RawClient.connect(portOf(edge.service.addresses.get('admin')) ?? edge.port)
  client.send(SCRAPE.repeat(times))
  await until(() => scrape.begun() > 0)
  return { edge, client, scrape }
}

function heldScrape() {
  let [begun, isHeld] = [0, true]
  const goOn = (): void => {
    isHeld = false
  }
  const { steps } = Exposition.prototype
  const spy = vi.spyOn(Exposition.prototype, 'steps').mockImplementation(function* (this: Exposition) {
    begun++
    while (isHeld) yield
    return yield* steps.call(this)
  })
  onTestFinished(() => {
    goOn()
    spy.mockRestore()
  })
  return { goOn, begun: () => begun }
}
