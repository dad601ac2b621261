import { setPriority } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuTimes, usedUs } from '../decision/cpu-time.mjs'
import { textOf } from '../decision/requests.mjs'
import { atMost } from '../decision/targets.mjs'
import { ask, MEASURED, OTHERS, start, stop } from '../support/processes.mjs'
import { median, ratio } from '../support/statistics.mjs'
import { calmOf, hasEnough, runUntilCalm } from './calm-rounds.mjs'
import { COMPLETION, ITEM } from './requests.mjs'

/** What is asked: the least that a proxy does, and a JSON request whose tokens edge reads, reserves and settles. */
const REQUESTS = [
  { title: 'small GET', request: ITEM },
  { title: 'LLM request', request: COMPLETION },
]
/**
 * Requests a second, how long a run takes, and on how many connections. Most machines see no more than the first. Its first row is of processes that have
 * just started; all others come after as many requests at full speed as half an hour of such traffic has, when the code is compiled that can be, and a
 * rest, in which what nobody uses may be given back.
 */
const RATES = [
  { title: '20 requests/s, just started', perSecond: 20, seconds: 3, connections: 2 },
  { title: '20 requests/s', perSecond: 20, seconds: 3, connections: 2, isWarm: true },
  { title: '1,000 requests/s', perSecond: 1000, seconds: 1, connections: 32, isWarm: true },
]
/** V8 looks for what it can give back when little has gone on for eight seconds. */
const REST_MS = 20_000
const ROUNDS = 5
/** What edge may take and add, in µs, at 20 requests a second. */
const MOST_CPU_US = 500
const MOST_ADDED_US = 400
/** The generator looks at the clock all the time, and would keep the backend waiting, with which it shares a core. */
const NICENESS = 19

/**
 * Requests at fixed rates far below what anybody can serve, at moments that do not depend on the answers: CPU time of a request, and how long it takes.
 * What a proxy adds to the median is the difference to a backend that is asked directly. Each kind of request is asked of processes that `startAll` starts for
 * it. `warmUp` sends requests to the contestants that it is given.
 */
export async function measureSlow(startAll, warmUp) {
  const generator = await start(OTHERS, new URL('../decision/fixed-rate-generator.mjs', import.meta.url))
  setPriority(generator.pid, NICENESS)
  const direct = { name: 'direct', server: await start(MEASURED, new URL('./backend.mjs', import.meta.url)) }
  const rates = []
  for (const { title, request } of REQUESTS) {
    const contestants = await startAll()
    for (const rate of await measureRates([...contestants, direct], request, generator, warmUp))
      rates.push({ ...rate, title: `${title}, ${rate.title}` })
    for (const { server } of contestants) if (server !== undefined) await stop(server)
  }
  await stop(generator)
  await stop(direct.server)
  return rates
}

async function measureRates(contestants, request, generator, warmUp) {
  const measured = contestants.filter(({ isMissing }) => !isMissing)
  const rates = []
  let isWarm = false
  for (const rate of RATES) {
    console.error(`${rate.title}: ${request.method} ${request.path}`)
    if (rate.isWarm && !isWarm) {
      await warmUp(measured.map((each) => ({ ...each, request })))
      await sleep(REST_MS)
    }
    isWarm = rate.isWarm
    const runs = await runUntilCalm(measured, ROUNDS, (each) => run(each, request, generator, rate))
    const runsOf = (wanted) => runs.get(contestants.find(({ name }) => name === wanted))
    const others = { direct: runsOf('direct'), nginx: runsOf('nginx') }
    rates.push({ ...rate, rows: contestants.map((each) => rowOf(each, runs.get(each), others)) })
  }
  return rates
}

/** CPU time is judged whatever the machine's other guests did; what is added, only if delays are reported. */
export function judgeSlow(rates) {
  return rates
    .filter(({ perSecond }) => perSecond === RATES[0].perSecond)
    .flatMap(({ title, rows }) => {
      const edge = rows.find(({ name, isMissing }) => name === 'edge' && !isMissing)
      const measured = (us) => (us === undefined ? undefined : { median: us, steal: edge.steal })
      return [
        atMost(`${title}, CPU µs of edge`, measured(edge?.cpuUs), MOST_CPU_US),
        atMost(`${title}, median µs added by edge`, measured(edge?.addedUs), MOST_ADDED_US),
      ]
    })
}

async function run({ server }, request, generator, { perSecond, seconds, connections }) {
  const before = cpuTimes(server.pid)
  const delays = await ask(generator, 'run', { port: server.port, text: textOf(request), perSecond, seconds, connections })
  return { ...delays, cpuUs: usedUs(before, cpuTimes(server.pid)) / (perSecond * seconds) }
}

/** CPU time, and its ratio to nginx's in the same round, is that of all runs; delays are those of the calm ones, if there are enough. */
function rowOf({ name, isMissing }, runs, { direct, nginx }) {
  if (isMissing) return { name, isMissing }
  const calm = calmOf(runs)
  const of = (pick, among) => median(among.map(pick))
  const row = {
    name,
    runs: runs.length,
    calmRuns: calm.length,
    cpuUs: of(({ cpuUs }) => cpuUs, runs),
    cpuRatio:
      nginx &&
      ratio(
        runs.map(({ cpuUs }) => cpuUs),
        nginx.map(({ cpuUs }) => cpuUs),
      ).median,
    steal: of(({ steal }) => steal, runs),
  }
  if (!hasEnough(calm)) return row
  const [p50Us, p99Us, p999Us] = [({ p50 }) => p50, ({ p99 }) => p99, ({ p999 }) => p999].map((pick) => of(pick, calm))
  const calmDirect = calmOf(direct)
  const addedUs = name === 'direct' || !hasEnough(calmDirect) ? undefined : p50Us - of(({ p50 }) => p50, calmDirect)
  return { ...row, p50Us, p99Us, p999Us, addedUs }
}
