// `npm run bench`: what a decision costs, beside other rate limiters and beside servers that limit nothing.
//
// The figure is CPU time per request, user and system, of the server with all its threads and children, for requests/s
// depend on who else uses the machine. The server is bound to one core, the load to the other. Contestants take turns,
// round after round; figures are medians over the rounds, ratios are medians of the per-round ratios. Each limiter is first
// shown to reject. `--quick` tries it out in two minutes and writes nothing.
import { mkdirSync, writeFileSync } from 'node:fs'
import { startFiveRules, startFloors, startLimiters } from './decision/contestants.mjs'
import { measureDelays } from './decision/fixed-rate.mjs'
import { measureKnownCallers } from './decision/known-callers.mjs'
import { newLoad } from './decision/load.mjs'
import { describeMachine, describeVersions } from './decision/machine.mjs'
import { drawPicture } from './decision/picture.mjs'
import { readPlan } from './decision/plan.mjs'
import { fill, isRough, measureInTurns, speedRatio, warmUp } from './decision/rounds.mjs'
import { rowsOf } from './decision/rows.mjs'
import { formatTable } from './decision/table.mjs'
import { judge } from './decision/targets.mjs'
import { measureTwoThreads } from './decision/two-threads.mjs'
import { measureDoors } from './doors/measure.mjs'
import { rounded } from './support/numbers.mjs'
import { hasCores } from './support/processes.mjs'

if (process.platform !== 'linux') throw new Error('CPU time is read from /proc: this needs Linux')
const plan = readPlan(process.argv.slice(2))
const load = await newLoad()
console.error(`load: ${load.name}, ${load.details}${hasCores ? '' : '\n*** no taskset: cores are shared, figures are rough ***'}`)

const { low, high } = await startLimiters()
const five = await startFiveRules()
const { nodeHttp, rawNet } = await startFloors()
const { edge, nginx, haproxy, express, fastify } = high

const oneRule = await measureOneRule()
const manyKeys = await measureManyKeys()
const rejects = await measureRejects()
const knownCallers = await measureKnownCallers(load, plan)
const doors = await measureDoors(plan)
console.error('delays at a fixed rate')
const delays = await measureDelays([edge, nginx, haproxy, nodeHttp], plan)
console.error('two threads')
const twoThreads = await measureTwoThreads(plan.threadRounds)

const groups = [oneRule.group, oneRule.fiveRules, manyKeys, rejects, knownCallers.group, doors.group]
const results = {
  date: new Date().toISOString().slice(0, 10),
  machine: { ...describeMachine(), isServerPinned: hasCores },
  versions: describeVersions(),
  load: { name: load.name, details: load.details },
  method: { rounds: plan.rounds, roundSeconds: plan.roundSeconds, latencyRounds: plan.latencyRounds, threadRounds: plan.threadRounds },
  isRough: isRough(groups),
  groups,
  delays,
  twoThreads,
  targets: [
    ...judge({ oneRule: oneRule.ratioTo, rawNet, nodeHttp, nginx, twoThreads: twoThreads.ratio }),
    ...knownCallers.targets,
    ...doors.targets,
  ],
}
console.log(formatTable(results))
if (!plan.isQuick) writeResults()
// Servers are still up; they end with us.
process.exit()

async function measureOneRule() {
  console.error('one rule, and five')
  const cases = [edge, rawNet, nodeHttp, nginx, haproxy, fastify, express]
  await warmUp([...cases, five], load, plan)
  const samples = await measureInTurns([...cases, five], load, plan)
  const ratioTo = (other) => speedRatio(samples.get(edge), samples.get(other))
  return {
    group: {
      title: 'one rule, one key',
      ratioTitle: 'edge : it',
      rows: rowsOf(cases, samples, (each) => (each === edge ? undefined : ratioTo(each))),
    },
    fiveRules: {
      title: '5 rules, 3 of them by claims of a JWT',
      ratioTitle: '5 rules : it',
      rows: rowsOf([five, edge, nodeHttp], samples, (each) =>
        each === five ? undefined : speedRatio(samples.get(five), samples.get(each)),
      ),
    },
    ratioTo,
  }
}

/** The same servers with all keys live, asked about one and about all of them in turns. */
async function measureManyKeys() {
  const { keyCount } = plan
  const pairs = [edge, nginx, haproxy].map((each) => ({ one: { ...each }, many: { ...each, keys: { first: 0, count: keyCount } } }))
  for (const { many } of pairs) await fill(many, load)
  console.error(`${keyCount} keys`)
  const samples = await measureInTurns(
    pairs.flatMap(({ one, many }) => [one, many]),
    load,
    plan,
  )
  const oneOf = new Map(pairs.map(({ one, many }) => [many, one]))
  return {
    title: `${keyCount.toLocaleString('en')} distinct keys, all of them live`,
    ratioTitle: 'it : one key',
    rows: rowsOf([...oneOf.keys()], samples, (each) => speedRatio(samples.get(each), samples.get(oneOf.get(each)))),
  }
}

async function measureRejects() {
  console.error('rejects')
  const cases = ['edge', 'nginx', 'haproxy', 'fastify', 'express'].map((id) => ({ ...low[id], isRejected: true }))
  await warmUp(cases, load, plan)
  const samples = await measureInTurns(cases, load, plan)
  const ratioOf = (each) => (each === cases[0] ? undefined : speedRatio(samples.get(cases[0]), samples.get(each)))
  return { title: 'rejects', ratioTitle: 'edge : it', rows: rowsOf(cases, samples, ratioOf) }
}

function writeResults() {
  const directory = new URL('./results/', import.meta.url)
  mkdirSync(directory, { recursive: true })
  writeFileSync(new URL('decision.json', directory), `${JSON.stringify(results, rounded, 2)}\n`)
  writeFileSync(new URL('decision.svg', directory), drawPicture(results))
  console.log('\nwritten to bench/results/decision.json and bench/results/decision.svg')
}
