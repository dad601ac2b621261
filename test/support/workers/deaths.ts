import { expect } from 'vitest'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { CounterWatch } from '../service/counter-watch.ts'
import type { Load } from '../service/load.ts'
import { metricsOf } from '../service/metrics.ts'
import { original } from '../service/wire.ts'
import { until } from '../until.ts'
import { type MortalEdge, mortalEdge } from './mortal-edge.ts'
import { loadOnAll } from './workers.ts'

const LANES = 6
const BURST = 1_000_000
/** So few tokens a second that none comes back while the test runs. */
const HARDLY_ANY = 0.0001
export const WORKERS = 2
export const MORTAL_BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-caller'], BURST, HARDLY_ANY)] }))

type Die = (mortal: MortalEdge, worker: number) => Promise<void>

export const DEATHS: readonly (readonly [what: string, cause: string, die: Die])[] = [
  ['an exception', 'exception', ({ host }, worker) => host.end(worker, 'throw')],
  ['a promise that nobody waits for', 'exception', ({ host }, worker) => host.end(worker, 'reject')],
  ['running out of memory', 'out_of_memory', ({ host }, worker) => host.end(worker, 'exhaust')],
  ['terminate()', 'exit', ({ host }, worker) => host.terminate(worker)],
  ['process.exit()', 'exit', ({ host }, worker) => host.end(worker, 'exit')],
]

/** Workers that die under load in these ways, one after the other: each is replaced, the others go on, and nothing that was counted is lost. */
export async function expectNothingLost(ways: typeof DEATHS): Promise<void> {
  const mortal = await mortalEdge(WORKERS, { bundle: MORTAL_BUNDLE })
  const load = await startLoad(mortal)
  const watch = new CounterWatch(mortal.port)
  let [deaths, mayBeLost] = [0, 0]
  for (const [what, cause, die] of ways) {
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
}

function deathsBy(cause: string): string {
  return `edge_worker_deaths_total{cause="${cause}"}`
}

export function startLoad({ port }: MortalEdge): Promise<Load> {
  return loadOnAll(port, original('/', ['X-Caller', 'alice']), LANES)
}

export async function more(load: Load): Promise<void> {
  const target = load.total + 100
  await until(() => load.total >= target)
}

async function remaining({ edge }: MortalEdge): Promise<number> {
  return Number((await edge.decide({ fields: [['X-Caller', 'alice']] })).headers['ratelimit-remaining'])
}
