import { expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { CounterWatch } from '../../support/service/counter-watch.ts'
import { Load } from '../../support/service/load.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { type MortalEdge, mortalEdge } from '../../support/workers/mortal-edge.ts'

const WORKERS = 2
const LANES = 6
const BURST = 1_000_000
/** So few tokens a second that none comes back while the test runs. */
const HARDLY_ANY = 0.0001
const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-caller'], BURST, HARDLY_ANY)] }))

/** Threads take their time to start where there are few cores. */
const LONG_MS = 60_000

type Die = (mortal: MortalEdge, worker: number) => Promise<void>

const DEATHS: readonly (readonly [what: string, cause: string, die: Die])[] = [
  ['an exception', 'exception', ({ host }, worker) => host.end(worker, 'throw')],
  ['a promise that nobody waits for', 'exception', ({ host }, worker) => host.end(worker, 'reject')],
  ['running out of memory', 'out_of_memory', ({ host }, worker) => host.end(worker, 'exhaust')],
  ['terminate()', 'exit', ({ host }, worker) => host.terminate(worker)],
  ['process.exit()', 'exit', ({ host }, worker) => host.end(worker, 'exit')],
]

test(
  'workers that die under load, in every way, ten in a row: each is replaced, the others go on, and nothing that was counted is lost',
  async () => {
    const mortal = await mortalEdge(WORKERS, { bundle: BUNDLE })
    const [watch, load] = [new CounterWatch(mortal.port), start(mortal)]
    let [deaths, mayBeLost] = [0, 0]
    for (const [what, cause, die] of [...DEATHS, ...DEATHS]) {
      const worker = (deaths++ % WORKERS) + 1
      await more(load)
      const before = await metricsOf(mortal.port)
      // Whoever is connected to it may lose one question, and nobody else.
      mayBeLost += before.connections[worker - 1]!
      mortal.age()
      await die(mortal, worker)
      await mortal.untilReplaced(deaths)
      expect(mortal.events('worker_died').at(-1), what).toMatchObject({ level: 50, worker, cause })
      expect(mortal.events('worker_replaced').at(-1)).toMatchObject({ worker })
      const after = await metricsOf(mortal.port)
      expect(after.value(deathsBy(cause))).toBe(before.value(deathsBy(cause)) + 1)
      expect(after.value('edge_workers')).toBe(WORKERS)
    }
    await more(load)
    await load.stop()
    const metrics = await watch.stop()

    // One that is ended in the middle of a decision may still say so to whoever asks next.
    const lost = load.errors.length + load.count(500)
    const allowed = load.total - load.count(500)
    expect(lost).toBeLessThanOrEqual(mayBeLost)
    expect(allowed).toBe(load.count(200))
    expect(watch.falls).toEqual([])
    expect(metrics.sum('edge_worker_deaths_total')).toBe(deaths)
    // What the dead answered is taken and counted; a question that one of them decided and could not answer any more is too.
    const taken = BURST - (await remaining(mortal)) - 1
    expect(taken).toBeGreaterThanOrEqual(allowed)
    expect(taken).toBeLessThanOrEqual(allowed + lost)
    expect(metrics.sum('edge_decisions_total')).toBeGreaterThanOrEqual(allowed)
    expect(metrics.sum('edge_decisions_total')).toBeLessThanOrEqual(taken)
  },
  LONG_MS,
)

test(
  'a worker that hangs: its callers wait, all others are answered meanwhile',
  async () => {
    const mortal = await mortalEdge(WORKERS, { bundle: BUNDLE })
    const load = start(mortal)
    await more(load)
    await mortal.host.end(1, 'hang')
    await more(load)
    expect(load.errors).toEqual([])
    const { connections } = await metricsOf(mortal.port)
    await mortal.host.terminate(1)
    await mortal.untilReplaced()
    await more(load)
    await load.stop()

    expect(load.errors.length).toBeGreaterThan(0)
    expect(load.errors.length).toBeLessThanOrEqual(connections[0]!)
    expect(mortal.events('worker_died')).toMatchObject([{ worker: 1, cause: 'exit' }])
  },
  LONG_MS,
)

test('the gauges of a dead worker are gone with it', async () => {
  const mortal = await mortalEdge(2, { bundle: BUNDLE }, (host) => {
    host.isStillborn = (worker, earlier) => worker === 2 && earlier > 0
  })
  const load = start(mortal)
  await until(async () => (await metricsOf(mortal.port)).value('edge_worker_heap_bytes{worker="2"}') > 0)
  await until(async () => (await metricsOf(mortal.port)).connections[1]! > 0)
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

function deathsBy(cause: string): string {
  return `edge_worker_deaths_total{cause="${cause}"}`
}

function start(mortal: MortalEdge): Load {
  const load = new Load(mortal.port, original('/', ['X-Caller', 'alice']), LANES)
  onTestFinished(() => load.stop())
  return load
}

async function more(load: Load): Promise<void> {
  const target = load.total + 100
  await until(() => load.total >= target)
}

async function remaining({ edge }: MortalEdge): Promise<number> {
  return Number((await edge.decide({ fields: [['X-Caller', 'alice']] })).headers['ratelimit-remaining'])
}
