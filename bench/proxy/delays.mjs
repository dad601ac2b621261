import { atMost } from '../decision/targets.mjs'
import { ask, MEASURED, start, stop } from '../support/processes.mjs'
import { mean, median } from '../support/statistics.mjs'
import { calmOf, hasEnough, runUntilCalm } from './calm-rounds.mjs'

/** A head is on its way through other code than an event, and short streams have many of them. */
const SHORT = { streams: 500, startGapMs: 0.2, events: 2, eventGapMs: 1, timeoutMs: 20_000 }
const PACED = { streams: 60, startGapMs: 15, events: 20, eventGapMs: 40, timeoutMs: 20_000 }
const PATH = '/streams/usage/v1/chat/completions'

/** How many events there are in a second, while all streams are open. */
export const EVENTS_PER_SECOND = (PACED.streams * 1000) / PACED.eventGapMs

/**
 * Streams at a rate that all of them can hold: how long a head and an event are on their way. What a proxy adds is the difference to
 * a backend that is asked directly. At this rate a program that is compiled while it runs would be measured while its compiler shares the core
 * with it, so that it is warmed up first. Delays are those of runs with little steal, of which there have to be some.
 */
export async function measureDelays(contestants, load, plan) {
  const direct = { name: 'direct', server: await start(MEASURED, new URL('./backend.mjs', import.meta.url)) }
  const measured = [...contestants.filter(({ isMissing }) => !isMissing), direct]
  for (const each of measured) if (!each.isCompiled) await warmUp(each, load, plan)
  const runs = await runUntilCalm(measured, plan.delayRounds, (each) => run(each, load))
  await stop(direct.server)
  const base = figures(runs.get(direct))
  return [...contestants, direct].map((each) => {
    if (each.isMissing) return { name: each.name, isMissing: true }
    const own = figures(runs.get(each))
    const added =
      each === direct || own === undefined || base === undefined
        ? undefined
        : Object.fromEntries(Object.entries(own).map(([key, us]) => [key, us - base[key]]))
    const all = runs.get(each)
    const calm = calmOf(all)
    // What is shown is of the calm runs; without them, the steal says why nothing is.
    const steal = mean((hasEnough(calm) ? calm : all).map((one) => one.steal))
    return { name: each.name, ...own, added, steal, runs: all.length, calmRuns: calm.length }
  })
}

async function run({ name, server }, load) {
  const result = await ask(load, 'run', { ports: [server.port], path: PATH, ...PACED })
  const lost = PACED.streams - result.completed
  if (lost > 0) throw new Error(`${name} lost ${lost} streams`)
  return result
}

/** What edge may add, by what nginx adds. A difference that noise has made negative is no measure. */
export function judgeDelays(delays) {
  const [edge, nginx] = ['edge', 'nginx'].map((wanted) => delays.find(({ name, added }) => name === wanted && added !== undefined))
  const ratioOf = (key) =>
    edge !== undefined && nginx?.added[key] > 0
      ? { median: edge.added[key] / nginx.added[key], steal: Math.max(edge.steal, nginx.steal) }
      : undefined
  return [
    atMost("head's median added, edge : nginx", ratioOf('headP50Us'), 2),
    atMost("event's p99 added, edge : nginx", ratioOf('eventP99Us'), 2),
  ]
}

async function warmUp({ server }, load, { delayWarmUpStreams, warmUpSeconds }) {
  const endMs = performance.now() + warmUpSeconds * 1000
  for (let streams = 0; streams < delayWarmUpStreams && performance.now() < endMs; streams += SHORT.streams)
    await ask(load, 'run', { ports: [server.port], path: PATH, ...SHORT })
}

/** Undefined if the machine was not left alone often enough. */
function figures(runs) {
  const calm = calmOf(runs)
  if (!hasEnough(calm)) return undefined
  const of = (pick) => median(calm.map(pick))
  return {
    headP50Us: of(({ headUs }) => headUs.p50),
    headP99Us: of(({ headUs }) => headUs.p99),
    eventP50Us: of(({ eventUs }) => eventUs.p50),
    eventP99Us: of(({ eventUs }) => eventUs.p99),
  }
}
