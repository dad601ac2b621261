import { describe, expect, test } from 'vitest'
import { BundleServer } from '../support/bundles/bundle-server.ts'
import { urlEnv } from '../support/bundles/bundle-url.ts'
import { bundle } from '../support/bundles/bundles.ts'
import { ask } from '../support/service/http.ts'
import { metricsOf } from '../support/service/metrics.ts'
import { serverPort } from '../support/service/server-port.ts'
import { until } from '../support/until.ts'
import { mortalEdge } from '../support/workers/mortal-edge.ts'

const DRAIN_MS = 600_000

describe('a worker that does not live to serve', () => {
  test('at the first start ends the start, and says why', async () => {
    const starting = mortalEdge(2, { env: { EDGE_CONFIG_FILE: '' } }, (host) => {
      host.isStillborn = (worker) => worker === 2
    })
    await expect(starting).rejects.toThrow('stillborn')
  })

  test('while the first bundle is read ends the start too', async () => {
    const starting = mortalEdge(2, { bundle: bundle(1) }, (host) => {
      host.isStillborn = (worker) => worker === 2
    })
    await expect(starting).rejects.toThrow('stillborn')
  })

  test('again and again before the port is open ends the start too', async () => {
    const server = await BundleServer.start()
    server.respond = () => {} // never, so that the port stays closed
    const adminPort = await serverPort()
    const env = urlEnv(server.url, { EDGE_ADMIN_PORT: String(adminPort), EDGE_WORKERS: '2' })
    const pause = (ms: number): Promise<void> => (ms === 10_000 ? new Promise(() => {}) : Promise.resolve())
    const starting = mortalEdge(2, { env, pause }, (host) => {
      host.isStillborn = (worker, earlier) => worker === 2 && earlier > 0
      void until(async () => (await ask(adminPort, 'GET', '/livez').catch(() => undefined)) !== undefined).then(() => host.terminate(2))
    })
    await expect(starting).rejects.toThrow('stillborn')
  })

  test('later on is tried again, after longer and longer pauses, while the others serve', async () => {
    const pausesMs: number[] = []
    const pause = async (ms: number): Promise<void> => void pausesMs.push(ms)
    const mortal = await mortalEdge(2, { bundle: bundle(1), pause }, (host) => {
      host.isStillborn = (worker, earlier) => worker === 2 && earlier > 0 && earlier < 4
    })
    mortal.age()
    mortal.stopTime()
    await mortal.host.terminate(2)
    await until(() => mortal.events('worker_died').length > 1)
    expect((await ask(mortal.port, 'GET', '/readyz')).status).toBe(200)
    await mortal.untilReplaced()

    expect(mortal.events('worker_died').map(({ worker, cause }) => [worker, cause])).toEqual([
      [2, 'exit'],
      [2, 'exception'],
      [2, 'exception'],
      [2, 'exception'],
    ])
    expect(pausesMs.slice(1)).toEqual([0, 100, 200, 400])
    expect(mortal.host.starts[2]).toBe(5)
    expect((await metricsOf(mortal.port)).value('edge_workers')).toBe(2)
  })

  test('in place of one that died while the service drains is not ready either', async () => {
    let isDrained = false
    const pause = async (ms: number): Promise<void> => (ms === DRAIN_MS ? until(() => isDrained) : undefined)
    const mortal = await mortalEdge(1, { bundle: bundle(1), pause, env: { EDGE_DRAIN_MS: String(DRAIN_MS) } })
    const stopped = mortal.edge.stop()
    await until(async () => (await ask(mortal.port, 'GET', '/readyz')).status === 503)
    await mortal.host.terminate(1)
    await mortal.untilReplaced()
    expect((await ask(mortal.port, 'GET', '/readyz')).status).toBe(503)
    isDrained = true
    await stopped
  })
})
