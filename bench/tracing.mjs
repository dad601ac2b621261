// `npm run bench:tracing`: what traces cost a decision, by the CPU time of the server: with EDGE_OTLP_URL at its default share, with callers
// that do not trace, and with all of it traced, beside a server without EDGE_OTLP_URL. Contestants take turns. The collector is on the core of
// the load. BENCH_OTHER=/path/to/checkout, built, takes part beside this one. `--quick` is a short trial run.
import { loadavg } from 'node:os'
import { startEdgeWith } from './decision/edge.mjs'
import { newLoad } from './decision/load.mjs'
import { readPlan } from './decision/plan.mjs'
import { DECISION } from './decision/requests.mjs'
import { figures, measureInTurns, speedRatio, warmUp } from './decision/rounds.mjs'
import { oneRule, policy } from './support/bundle.mjs'
import { OTHERS, start } from './support/processes.mjs'

const HIGH_LIMIT = 1_000_000_000
const [loadBefore] = loadavg()
const plan = readPlan(process.argv.slice(2))
const load = await newLoad()
const collector = await start(OTHERS, new URL('./tracing/collector.mjs', import.meta.url))
const traced = { EDGE_OTLP_URL: `http://127.0.0.1:${collector.port}` }
const untracedCaller = { ...DECISION, fields: { ...DECISION.fields, traceparent: `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-00` } }

const off = { name: 'no EDGE_OTLP_URL', request: DECISION, server: await startEdge({}) }
const cases = [
  off,
  { name: 'EDGE_OTLP_SAMPLE=0.01', request: DECISION, server: await startEdge(traced) },
  { name: 'the same, callers that do not trace', request: untracedCaller, server: await startEdge(traced) },
  { name: 'EDGE_OTLP_SAMPLE=1', request: DECISION, server: await startEdge({ ...traced, EDGE_OTLP_SAMPLE: '1' }) },
]
const other = process.env.BENCH_OTHER
if (other) cases.push({ name: `no EDGE_OTLP_URL, ${other}`, request: DECISION, server: await startEdge({}, other) })

await warmUp(cases, load, plan)
const samples = await measureInTurns(cases, load, plan)
console.log(`load of the machine before: ${loadBefore.toFixed(1)}; above 1 the times are rough, and the ratios less so\n`)
console.log(line('', 'CPU µs each', 'requests/s', 'it : off', 'middle half'))
for (const each of cases) {
  const { cpuUs, perSecond } = figures(samples.get(each))
  const { median, low, high } = speedRatio(samples.get(off), samples.get(each))
  console.log(line(each.name, cpuUs.toFixed(1), perSecond.toFixed(0), median.toFixed(2), `${low.toFixed(2)}–${high.toFixed(2)}`))
}
process.exit()

function startEdge(env, checkout) {
  return startEdgeWith([policy('bench', '/api', oneRule(HIGH_LIMIT))], env, checkout)
}

function line(name, ...columns) {
  return (name.padEnd(46) + columns.map((column) => column.padStart(14)).join('')).trimEnd()
}
