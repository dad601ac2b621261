// `npm run bench:proxy`: what the reverse proxy costs, beside a bare undici pass-through and a direct connection.
//
// Whoever is measured has a process of its own on one core; the backend and the load share another (where `taskset` can
// see to that). They take turns, round after round, so that a busy machine slows all of them alike. Figures are medians
// over the rounds, ratios are medians of the per-round ratios. CPU time is that of the measured process, user and system.
import { startEdge, startPassThrough } from './proxy/contestants.mjs'
import { whole } from './support/numbers.mjs'
import { ask, hasCores, MEASURED, OTHERS, PROBE, start, stop } from './support/processes.mjs'
import { median, ratio } from './support/statistics.mjs'

const WARM_UP_ROUNDS = 3
const ITEM_ROUNDS = Number(process.env.BENCH_ROUNDS ?? 15)
const ITEM_MS = 500
const STREAM_ROUNDS = 5
const PACED = { streams: 60, startGapMs: 15, events: 20, eventGapMs: 40, timeoutMs: 20_000 }
const CROWD = { streams: 1000, startGapMs: 0.2, events: 80, eventGapMs: 60, timeoutMs: 60_000 }
const FILTER_ROUNDS = 15
const FILTER_STREAMS = 60

const [load, backend] = await Promise.all([start(OTHERS, script('load')), start(OTHERS, script('backend'))])
// Whoever is asked directly is itself what is measured.
const direct = { name: 'direct', process: await start(MEASURED, script('backend'), { execArgv: PROBE }) }
const edge = { name: 'edge', process: await startEdge(backend) }
const undici = { name: 'undici pass-through', process: await startPassThrough(backend) }
const contestants = [edge, undici, direct]

console.log(`node ${process.version}, ${hasCores ? 'what is measured alone on one core' : 'cores shared: figures are rough'}\n`)
await compareItems()
await compareStreams()
for (const contestant of contestants) await stop(contestant.process)
await crowd()
await stop(load)
await stop(backend)
await filterAlone()

/** Small JSON answers, as many as it can. */
async function compareItems() {
  for (const contestant of contestants) Object.assign(contestant, { perSecond: [], cpuUs: [] })
  for (let round = 0; round < WARM_UP_ROUNDS + ITEM_ROUNDS; round++) {
    for (const contestant of contestants) {
      const before = await ask(contestant.process, 'usage')
      const { count, elapsedMs } = await ask(load, 'items', { port: contestant.process.port, ms: ITEM_MS })
      const after = await ask(contestant.process, 'usage')
      if (round < WARM_UP_ROUNDS) continue
      contestant.perSecond.push((count / elapsedMs) * 1000)
      contestant.cpuUs.push((after.cpuUs - before.cpuUs) / count)
    }
  }
  console.log(`small JSON answers, one rule, 32 connections, ${ITEM_ROUNDS} rounds of ${ITEM_MS} ms`)
  print('', 'requests/s', 'CPU µs each', 'fastest round')
  for (const { name, perSecond, cpuUs } of contestants)
    print(name, whole(median(perSecond)), median(cpuUs).toFixed(1), Math.min(...cpuUs).toFixed(1))
  const throughput = ratio(edge.perSecond, undici.perSecond).median
  const cpu = ratio(undici.cpuUs, edge.cpuUs).median
  console.log(`edge : undici = ${throughput.toFixed(2)} by requests/s, ${cpu.toFixed(2)} by CPU time (target: at least 0.9)\n`)
}

/** Streams at a fixed rate: what is on the way from the backend's hand to the client's. */
async function compareStreams() {
  for (const contestant of contestants) contestant.rounds = []
  for (let round = 0; round < 1 + STREAM_ROUNDS; round++) {
    for (const contestant of contestants) {
      const result = await ask(load, 'streams', { port: contestant.process.port, ...PACED })
      if (result.completed !== PACED.streams) throw new Error(`${contestant.name} lost ${PACED.streams - result.completed} streams`)
      if (result.usages !== (contestant === edge ? result.events : 0)) throw new Error(`${contestant.name} added ${result.usages} usages`)
      if (round > 0) contestant.rounds.push(result)
    }
  }
  const perSecond = (PACED.streams * PACED.events * 1000) / (PACED.streams * PACED.startGapMs + PACED.events * PACED.eventGapMs)
  console.log(`event streams, about ${whole(perSecond)} events/s, usage added by edge; µs, medians of ${STREAM_ROUNDS} rounds`)
  print('', 'head p50', 'head p99', 'event p50', 'event p99')
  for (const contestant of contestants) print(contestant.name, ...delays(contestant).map(whole))
  for (const proxy of [edge, undici]) print(`added by ${proxy.name}`, ...delays(proxy).map((us, i) => whole(us - delays(direct)[i])))
  console.log()
}

function delays({ rounds }) {
  const of = (pick) => median(rounds.map(pick))
  return [
    of(({ headUs }) => headUs.p50),
    of(({ headUs }) => headUs.p99),
    of(({ eventUs }) => eventUs.p50),
    of(({ eventUs }) => eventUs.p99),
  ]
}

/** A thousand streams at once, through a process that has done nothing before. */
async function crowd() {
  const fresh = await startEdge(backend)
  const before = await ask(fresh, 'usage')
  const result = await ask(load, 'streams', { port: fresh.port, ...CROWD })
  const after = await ask(fresh, 'usage')
  const cpuS = (after.cpuUs - before.cpuUs) / 1e6
  await stop(fresh)
  console.log(`${whole(CROWD.streams)} concurrent streams of ${CROWD.events} events through edge, usage added`)
  print('completed', whole(result.completed))
  print('lost', whole(CROWD.streams - result.completed))
  print('events/s', whole((result.events / result.elapsedMs) * 1000))
  print('events/s of CPU time', whole(result.events / cpuS))
  print('event p50, p99', `${(result.eventUs.p50 / 1000).toFixed(1)} ms`, `${(result.eventUs.p99 / 1000).toFixed(1)} ms`)
  print('memory before, at most', mebibytes(before.residentBytes), mebibytes(after.peakBytes))
  console.log()
  if (result.completed !== CROWD.streams) process.exitCode = 1
}

/** The filter without sockets, each case in a process of its own. */
async function filterAlone() {
  const cases = []
  for (const [name, dialect, addsUsage] of [
    ['chat, usage added', 'chat', true],
    ['chat', 'chat', false],
    ['Anthropic', 'anthropic', false],
    ['Responses', 'responses', false],
  ]) {
    const child = await start(MEASURED, script('filter-case'), { args: [dialect, String(addsUsage)] })
    cases.push({ name, child, single: [], chunked: [] })
  }
  for (let round = 0; round < WARM_UP_ROUNDS + FILTER_ROUNDS; round++) {
    for (const each of cases) {
      for (const task of ['single', 'chunked']) {
        const { eventNs } = await ask(each.child, task, { streams: FILTER_STREAMS })
        if (round >= WARM_UP_ROUNDS) each[task].push(eventNs)
      }
    }
  }
  console.log(`the filter alone, events/s on one core, ${FILTER_ROUNDS} rounds (target: at least 300,000)`)
  print('', 'one a chunk', 'fastest', '16 KiB chunks', 'fastest')
  for (const { name, child, single, chunked } of cases) {
    print(name, ...[single, chunked].flatMap((ns) => [whole(1e9 / median(ns)), whole(1e9 / Math.min(...ns))]))
    await stop(child)
  }
}

function print(name, ...columns) {
  console.log(`  ${name.padEnd(30)}${columns.map((column) => column.padStart(15)).join('')}`)
}

function mebibytes(bytes) {
  return `${Math.round(bytes / 2 ** 20)} MiB`
}

function script(name) {
  return new URL(`./proxy/${name}.mjs`, import.meta.url)
}
