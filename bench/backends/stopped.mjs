import { setPriority } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { textOf } from '../decision/requests.mjs'
import { atMost } from '../decision/targets.mjs'
import { ITEM } from '../proxy/requests.mjs'
import { ask, OTHERS, start, stop } from '../support/processes.mjs'
import { median, ratio } from '../support/statistics.mjs'
import { formatRatio, line } from '../support/text-table.mjs'
import { startBackend, startRoutedEdge } from './routed-edge.mjs'

const LOAD = { perSecond: 500, seconds: 3 }
/** To the backend that is stopped, in both cases alike: more than it has places for by the time the first of them are given up. */
const STEADY = { path: '/stopped', perSecond: 60 }
const TIMEOUT_SECONDS = 1
const MAX_CONNECTIONS = 90
/** By then all places of a stopped backend are taken, and those of one that is well again are free. */
const SETTLE_MS = 2 * TIMEOUT_SECONDS * 1000 + 500
const [MOST_P50, MOST_P99] = [1.2, 2]

/** Requests to two backends, while a third one with requests of its own is stopped, and while it is not. */
export async function measureStopped(rounds) {
  const [a, b, stopped] = [await startBackend(), await startBackend(), await startBackend()]
  const edge = await startRoutedEdge(
    { a, b, stopped },
    {
      routes: [{ selector: { pathPrefix: STEADY.path }, backends: [{ name: 'stopped' }] }, { backends: [{ name: 'a' }, { name: 'b' }] }],
      settings: { stopped: { headers_timeout_seconds: TIMEOUT_SECONDS } },
      env: { EDGE_BACKEND_MAX_CONNECTIONS: String(MAX_CONNECTIONS) },
    },
  )
  const generator = await start(OTHERS, new URL('../decision/fixed-rate-generator.mjs', import.meta.url))
  // It looks at the clock all the time, and would keep the backends on its core waiting.
  setPriority(generator.pid, 10)
  const steady = await start(OTHERS, new URL('./steady-requests.mjs', import.meta.url))
  await ask(steady, 'begin', { port: edge.port, ...STEADY })
  const measure = async () => ({
    ...(await ask(generator, 'run', { port: edge.port, text: textOf(ITEM), ...LOAD })),
    steady: await ask(steady, 'report'),
  })
  await measure()
  const [well, hung] = [[], []]
  const turns = [
    async () => {
      stopped.kill('SIGCONT')
      await sleep(SETTLE_MS)
      await ask(steady, 'report')
      well.push(await measure())
    },
    async () => {
      stopped.kill('SIGSTOP')
      await sleep(SETTLE_MS)
      await ask(steady, 'report')
      hung.push(await measure())
    },
  ]
  for (let round = 0; round < rounds; round++) for (const turn of round % 2 === 0 ? turns : turns.toReversed()) await turn()
  stopped.kill('SIGCONT')
  for (const child of [steady, generator, edge]) await stop(child)
  if (hung.some(({ steady: { answered } }) => answered > 0)) throw new Error('a stopped backend has answered')
  if (well.some(({ steady: { answered } }) => answered === 0)) throw new Error('a backend that is well has not answered')
  return report(well, hung)
}

function report(well, hung) {
  const of = (samples, pick) => samples.map(pick)
  const ratios = {
    p50: ratio(
      of(hung, ({ p50 }) => p50),
      of(well, ({ p50 }) => p50),
    ),
    p99: ratio(
      of(hung, ({ p99 }) => p99),
      of(well, ({ p99 }) => p99),
    ),
  }
  console.log(`\n${line('delays of healthy backends, µs', 'well', 'stopped', 'ratio', 'middle half')}`)
  for (const name of ['p50', 'p99']) {
    const [before, beside] = [well, hung].map((samples) => median(samples.map((each) => each[name])).toFixed(0))
    console.log(line(`  ${name}`, before, beside, ...formatRatio(ratios[name])))
  }
  return [
    atMost('p50 beside a stopped backend : beside a healthy one', ratios.p50, MOST_P50),
    atMost('p99 beside a stopped backend : beside a healthy one', ratios.p99, MOST_P99),
  ]
}
