import { expect, test } from 'vitest'
import { metricsOf } from '../support/service/metrics.ts'
import { until } from '../support/until.ts'
import { DEATHS, expectNothingLost, MORTAL_BUNDLE, more, startLoad, WORKERS } from '../support/workers/deaths.ts'
import { mortalEdge } from '../support/workers/mortal-edge.ts'

test('workers that die under load, one after the other: each is replaced, the others go on, and nothing that was counted is lost', () =>
  // In every way, many times: test/campaigns/workers.test.ts
  expectNothingLost(DEATHS.filter(([what]) => what === 'an exception' || what === 'terminate()')))

test('a worker that hangs: its callers wait, all others are answered meanwhile', async () => {
  const mortal = await mortalEdge(WORKERS, { bundle: MORTAL_BUNDLE })
  const load = await startLoad(mortal)
  await more(load)
  await mortal.host.end(1, 'hang')
  await more(load)
  const asked = load.open
  await more(load)
  const waiting = load.open.filter((question) => asked.includes(question))
  expect(waiting.length).toBeGreaterThan(0)
  expect(load.errors).toEqual([])
  const { connections } = await metricsOf(mortal.port)
  await mortal.host.terminate(1)
  await mortal.untilReplaced()
  await more(load)
  await load.stop()

  // In its last turn a thread that is ended may still answer those who wait, or say that it could not.
  expect(load.errors.length + load.count(500)).toBeLessThanOrEqual(connections[0]!)
  expect(mortal.events('worker_died')).toMatchObject([{ worker: 1, cause: 'exit' }])
})

test('the gauges of a dead worker are gone with it', async () => {
  const mortal = await mortalEdge(2, { bundle: MORTAL_BUNDLE }, (host) => {
    host.isStillborn = (worker, earlier) => worker === 2 && earlier > 0
  })
  const load = await startLoad(mortal)
  await until(async () => (await metricsOf(mortal.port)).value('edge_worker_heap_bytes{worker="2"}') > 0)
  await mortal.host.terminate(2)
  await until(() => mortal.events('worker_died').length > 0)
  const metrics = await metricsOf(mortal.port)
  await load.stop()

  expect(metrics.value('edge_workers')).toBe(1)
  expect(metrics.connections[1]).toBe(0)
  expect(metrics.value('edge_worker_heap_bytes{worker="2"}')).toBe(0)
  expect(metrics.value('edge_worker_busy_ratio{worker="2"}')).toBe(0)
  expect(metrics.value('edge_worker_heap_bytes{worker="1"}')).toBeGreaterThan(0)
})
