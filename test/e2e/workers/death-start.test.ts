import { describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'

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

  test('later on is tried again, after longer and longer pauses, while the others serve', async () => {
    const mortal = await mortalEdge(2, { bundle: bundle(1) }, (host) => {
      host.isStillborn = (worker, earlier) => worker === 2 && earlier > 0 && earlier < 4
    })
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
    // A pause may be longer on a busy machine, never shorter; a timer's millisecond aside.
    const [, ...again] = mortal.host.startsMs[2]!
    const gaps = again.slice(1).map((startMs, i) => startMs - again[i]!)
    expect(gaps[0]).toBeGreaterThan(90)
    expect(gaps[1]).toBeGreaterThan(190)
    expect(gaps[2]).toBeGreaterThan(390)
    expect((await metricsOf(mortal.port)).value('edge_workers')).toBe(2)
  })

  test('in place of one that died while the service drains is not ready either', async () => {
    const mortal = await mortalEdge(1, { bundle: bundle(1), env: { EDGE_DRAIN_MS: '5000' } })
    const stopped = mortal.edge.service.stop('test')
    await until(async () => (await ask(mortal.port, 'GET', '/readyz')).status === 503)
    await mortal.host.terminate(1)
    await mortal.untilReplaced()
    const { status } = await ask(mortal.port, 'GET', '/readyz')
    await stopped
    expect(status).toBe(503)
  })
})
