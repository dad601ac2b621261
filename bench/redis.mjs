// `npm run bench:redis`: what a decision costs with counters in memory, in Redis, and leased from Redis.
//
// edge is alone on one core with one worker; Redis and the load share the other. The three take turns, round after round;
// figures are medians over the rounds, ratios are medians of the per-round ratios. The figure to look at is CPU time per
// decision, user and system of the whole process: requests/s are bound by what Redis and the load leave each other.
// Each is first shown to reject. `--quick` tries it out in a minute and writes nothing. `--against DIR [--rounds 21] [--only exact]` instead compares this build with
// another built checkout, and writes nothing either.
import { mkdirSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { measureDelays } from './decision/fixed-rate.mjs'
import { newLoad } from './decision/load.mjs'
import { describeMachine } from './decision/machine.mjs'
import { findProgram, versionOf } from './decision/programs.mjs'
import { isRough } from './decision/rounds.mjs'
import { compareBuilds } from './redis/against.mjs'
import { COLD, HOT, SATURATED, startContestants } from './redis/contestants.mjs'
import { measureGrpc } from './redis/grpc.mjs'
import { drawPicture } from './redis/picture.mjs'
import { measureInTurns } from './redis/rounds.mjs'
import { summarise } from './redis/summary.mjs'
import { formatTable } from './redis/table.mjs'
import { rounded } from './support/numbers.mjs'
import { hasCores } from './support/processes.mjs'
import { stealDuring } from './support/steal.mjs'

const FULL = {
  warmUpSeconds: 6,
  hotRounds: 11,
  otherRounds: 5,
  roundSeconds: 2,
  coldKeys: 1_000_000,
  latencyRounds: 9,
  latencySeconds: 1.5,
  grpcRounds: 7,
  grpcLatencySeconds: 2,
}
const QUICK = {
  warmUpSeconds: 2,
  hotRounds: 3,
  otherRounds: 1,
  roundSeconds: 1,
  coldKeys: 100_000,
  latencyRounds: 3,
  latencySeconds: 1,
  grpcRounds: 2,
  grpcLatencySeconds: 1,
}

if (process.platform !== 'linux') throw new Error('CPU time is read from /proc: this needs Linux')
const options = {
  quick: { type: 'boolean', default: false },
  against: { type: 'string' },
  rounds: { type: 'string', default: '21' },
  only: { type: 'string', default: '' },
}
const { quick, against, rounds, only } = parseArgs({ options }).values
const plan = quick ? QUICK : FULL
const redisServer = findProgram('redis-server')
if (redisServer === undefined) throw new Error('redis-server is not installed, see bench/install-debian-parts.sh')
if (against !== undefined) {
  await compareBuilds(redisServer, against, { rounds: Number(rounds), only })
  process.exit()
}
const load = await newLoad()
console.error(`load: ${load.name}, ${load.details}${hasCores ? '' : '\n*** no taskset: cores are shared, figures are rough ***'}`)

const contestants = await startContestants(redisServer)
console.error('hot keys')
const hot = await measure(HOT, { rounds: plan.hotRounds, leadInSeconds: 1, warmUpSeconds: plan.warmUpSeconds })
console.error('cold keys')
const cold = await measure(COLD(plan.coldKeys), { rounds: plan.otherRounds, leadInSeconds: 0, warmUpSeconds: 0 })
console.error('one key above its limit')
const saturated = await measure(SATURATED, { rounds: plan.otherRounds, leadInSeconds: 1, warmUpSeconds: 0 })
console.error('delays at a fixed rate')
const { result: delays, steal } = await stealDuring(() =>
  measureDelays(
    contestants.map((each) => ({ ...each, request: HOT.request, keys: { count: HOT.keys.count } })),
    // Redis is on the generator's core, and has the right of way.
    { ...plan, niceness: 19 },
  ),
)
console.error('gRPC beside envoyproxy/ratelimit')
const grpc = await measureGrpc(redisServer, plan)

const groups = [hot, cold, saturated]
const results = {
  date: new Date().toISOString().slice(0, 10),
  machine: { ...describeMachine(), isServerPinned: hasCores },
  versions: { redis: versionOf(redisServer) },
  load: { name: load.name, details: load.details },
  method: plan,
  // With Redis on the load's core, edge has time to spare; without Redis it should have none.
  isRough: isRough([{ rows: hot.rows.filter(({ id }) => id === 'embedded') }]),
  groups,
  delays,
  steal,
  grpc,
  targets: judge(hot, grpc),
}
console.log(formatTable(results))
if (!quick) writeResults()
// Servers are still up; they end with us.
process.exit()

async function measure(kind, options) {
  const samples = await measureInTurns(contestants, kind, load, { roundSeconds: plan.roundSeconds, ...options })
  return { title: kind.title, rows: summarise(contestants, samples) }
}

function judge({ rows }, { delays: { ratio: p99Ratio } }) {
  const [exact, leased] = ['exact', 'leased'].map((wanted) => rows.find(({ id }) => id === wanted))
  const target = (what, value, bound, isMet) => ({ what, value, bound, verdict: isMet ? 'met' : 'missed' })
  return [
    target('hot keys, exact, CPU µs of edge', exact.cpuUs, 'at most 30', exact.cpuUs <= 30),
    target('hot keys, leased : embedded, by CPU time', leased.ratio.median, 'at least 0.95', leased.ratio.median >= 0.95),
    target('hot keys, leased, round trips per decision', leased.roundTrips, 'at most 0.05', leased.roundTrips <= 0.05),
    p99Ratio === undefined
      ? { what: 'gRPC, exact : ratelimit, p99', bound: 'at most 1', verdict: 'not measured' }
      : target('gRPC, exact : ratelimit, p99', p99Ratio.median, 'at most 1', p99Ratio.median <= 1),
  ]
}

function writeResults() {
  const directory = new URL('./results/', import.meta.url)
  mkdirSync(directory, { recursive: true })
  writeFileSync(new URL('redis.json', directory), `${JSON.stringify(results, rounded, 2)}\n`)
  writeFileSync(new URL('redis.svg', directory), drawPicture(results))
  console.log('\nwritten to bench/results/redis.json and bench/results/redis.svg')
}
