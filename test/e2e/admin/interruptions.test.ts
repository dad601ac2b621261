import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { listener } from '../../../src/listen/listeners.ts'
import { Exposition } from '../../../src/telemetry/metrics/exposition.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyOptions, RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import type { EdgeOptions } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { portOf } from '../../support/service/port-of.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const OWN_PORT = { EDGE_ADMIN_PORT: '0' }
const NOTHING = new Int32Array(new SharedArrayBuffer(4))
const SCRAPE = 'GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n'

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

  test('a CONNECT behind it gets its 405 when the client has all of it', async () => {
    const { edge, client, scrape } = await scraping(options)
    client.send('CONNECT edge:80 HTTP/1.1\r\nHost: edge:80\r\n\r\n')
    expect((await ask(portOf(edge.service.addresses.get('admin')) ?? edge.port, 'GET', '/livez')).status).toBe(200)
    scrape.goOn()
    expect(statusesIn(await client.closed())).toEqual([200, 405])
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
    while (isHeld) {
      // Slices follow one another at once: one that sleeps needs no CPU time.
      Atomics.wait(NOTHING, 0, 0, 1)
      yield
    }
    return yield* steps.call(this)
  })
  onTestFinished(() => {
    goOn()
    spy.mockRestore()
  })
  return { goOn, begun: () => begun }
}
