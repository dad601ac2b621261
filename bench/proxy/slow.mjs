import { setPriority } from 'node:os'
import { cpuTimes, usedUs } from '../decision/cpu-time.mjs'
import { textOf } from '../decision/requests.mjs'
import { atMost } from '../decision/targets.mjs'
import { ask, MEASURED, OTHERS, start, stop } from '../support/processes.mjs'
import { median, ratio } from '../support/statistics.mjs'
import { MAX_STEAL_SHARE, readSteal, stealShare } from '../support/steal.mjs'
import { ITEM } from './requests.mjs'

/**
 * Requests a second, how long a run takes, and on how many connections. Most machines see no more than the first. Its first row is of processes that have
 * just started; all others come after as many requests as half an hour of such traffic has, when the code is compiled that can be.
 */
const RATES = [
  { title: '20 requests/s, just started', perSecond: 20, seconds: 3, connections: 2 },
  { title: '20 requests/s', perSecond: 20, seconds: 3, connections: 2, isWarm: true },
  { title: '1,000 requests/s', perSecond: 1000, seconds: 1, connections: 32, isWarm: true },
]
const ROUNDS = 5
const MOST_ROUNDS = 20
/** What edge may take and add, in µs, at 20 requests a second. */
const MOST_CPU_US = 500
const MOST_ADDED_US = 400
/** With fewer runs on a machine that was left alone, delays are not reported. */
const LEAST_CALM = 3
/** The generator looks at the clock all the time, and would keep the backend waiting, with which it shares a core. */
const NICENESS = 19

/**
 * Requests at fixed rates far below what anybody can serve, at moments that do not depend on the answers: CPU time of a request, and how long it takes.
 * What a proxy adds to the median is the difference to a backend that is asked directly. Rounds go on until each has had three runs with little
 * steal, at most twenty. `warmUp` sends requests to the contestants that it is given.
 */
export async function measureSlow(contestants, warmUp) {
  const generator = await start(OTHERS, new URL('../decision/fixed-rate-generator.mjs', import.meta.url))
  setPriority(generator.pid, NICENESS)
  const direct = { name: 'direct', server: await start(MEASURED, new URL('./backend.mjs', import.meta.url)) }
  const measured = [...contestants.filter(({ isMissing }) => !isMissing), direct]
  const rates = []
  let isWarm = false
  for (const rate of RATES) {
    console.error(rate.title)
    if (rate.isWarm && !isWarm) await warmUp(measured.map((each) => ({ ...each, request: ITEM })))
    isWarm = rate.isWarm
    const runs = await runInTurns(measured, generator, rate)
    const others = { direct: runs.get(direct), nginx: runs.get(contestants.find(({ name }) => name === 'nginx')) }
    rates.push({ ...rate, rows: [...contestants, direct].map((each) => rowOf(each, runs.get(each), others)) })
  }
  await stop(generator)
  await stop(direct.server)
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

async function runInTurns(measured, generator, rate) {
  const runs = new Map(measured.map((each) => [each, []]))
  for (const each of measured) await run(each, generator, rate)
  const isEnough = () => measured.every((each) => runs.get(each).filter(isCalm).length >= LEAST_CALM)
  for (let round = 0; round < MOST_ROUNDS && (round < ROUNDS || !isEnough()); round++)
    for (const each of measured) runs.get(each).push(await run(each, generator, rate))
  return runs
}

async function run({ server }, generator, { perSecond, seconds, connections }) {
  const steal = readSteal()
  const before = cpuTimes(server.pid)
  const delays = await ask(generator, 'run', { port: server.port, text: textOf(ITEM), perSecond, seconds, connections })
  return { ...delays, cpuUs: usedUs(before, cpuTimes(server.pid)) / (perSecond * seconds), steal: stealShare(steal, readSteal()) }
}

function isCalm({ steal }) {
  return steal <= MAX_STEAL_SHARE
}

/** CPU time, and its ratio to nginx's in the same round, is that of all runs; delays are those of the calm ones, if there are enough. */
function rowOf({ name, isMissing }, runs, { direct, nginx }) {
  if (isMissing) return { name, isMissing }
  const calm = runs.filter(isCalm)
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
  if (calm.length < LEAST_CALM) return row
  const [p50Us, p99Us, p999Us] = [({ p50 }) => p50, ({ p99 }) => p99, ({ p999 }) => p999].map((pick) => of(pick, calm))
  const calmDirect = direct.filter(isCalm)
  const addedUs = name === 'direct' || calmDirect.length < LEAST_CALM ? undefined : p50Us - of(({ p50 }) => p50, calmDirect)
  return { ...row, p50Us, p99Us, p999Us, addedUs }
}
