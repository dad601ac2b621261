// `npm run bench:proxy [-- --only items,post] [--rounds 11] [--against DIR] [--contestants nginx,edge] [--new-ids] [--write]`: what the
// reverse proxy costs, beside nginx, HAProxy and a bare undici pass-through. With --new-ids each request has an X-Request-Id of its own. Results are written
// when all was measured; with --write and --only, the parts `slow`, `delays`, `crowds` and `filter` that were measured replace those that are written.
//
// The figure is CPU time per request or event, user and system, of the proxy with all its threads and children. The proxy is
// bound to one core; the load and the backend share the other. Contestants take turns, round after round; figures are
// medians over the rounds, ratios are medians of the per-round ratios. Each is first shown to do its job.
import { newLoad } from './decision/load.mjs'
import { isRough, measureInTurns, speedRatio, warmUp } from './decision/rounds.mjs'
import { rowsOf } from './decision/rows.mjs'
import { atLeast } from './decision/targets.mjs'
import { startContestants } from './proxy/contestants.mjs'
import { expectFilesForCrowds, measureCrowds } from './proxy/crowds.mjs'
import { measureDelays } from './proxy/delays.mjs'
import { measureFilter } from './proxy/filter.mjs'
import { readPlan } from './proxy/plan.mjs'
import { writeParts, writeResults } from './proxy/results.mjs'
import { measureSlow } from './proxy/slow.mjs'
import { formatTable } from './proxy/table.mjs'
import { caseOf, WORKLOADS } from './proxy/workloads.mjs'
import { hasCores, OTHERS, start, stop } from './support/processes.mjs'

if (process.platform !== 'linux') throw new Error('CPU time is read from /proc: this needs Linux')
const plan = readPlan(process.argv.slice(2))
if (plan.has('crowds')) expectFilesForCrowds()
const load = await newLoad()
console.error(`load: ${load.name}, ${load.details}${hasCores ? '' : '\n*** no taskset: cores are shared, figures are rough ***'}`)
const backend = await startScript('backend')
const streamLoad = await startScript('stream-load')

const results = { load: { name: load.name, details: load.details }, method: plan.method, groups: [] }
await measureContestants()
if (plan.has('crowds')) results.crowds = await measureCrowds(backend, streamLoad)
if (plan.has('filter')) results.filter = await measureFilter(plan.rounds)
// Others may be waiting for the load; edge always has enough to do.
results.isRough = isRough(results.groups.map(({ rows }) => ({ rows: rows.filter(({ name }) => name === 'edge') })))
console.log(formatTable(results))
if (plan.isWhole) writeResults(results)
else if (plan.isWritten) writeParts(results)
if (results.crowds?.some(({ lost }) => lost > 0)) process.exitCode = 1
// Servers are still up; they end with us.
process.exit()

async function measureContestants() {
  const workloads = Object.entries(WORKLOADS).filter(([id]) => plan.has(id))
  // Without the two that are there to compare code with.
  const slowPlan = { ...plan, isContestant: (id) => !['node', 'undici'].includes(id) && plan.isContestant(id) }
  if (plan.has('slow')) {
    const startAll = async () => Object.values(await startContestants(backend, slowPlan))
    results.slow = await measureSlow(startAll, (cases) => warmUp(cases, load, plan))
  }
  if (workloads.length === 0 && !plan.has('delays')) return
  const contestants = await startContestants(backend, plan)
  for (const [id, workload] of workloads) results.groups.push({ id, ...(await measureWorkload(workload, contestants)) })
  if (plan.has('delays')) results.delays = await measureDelays(Object.values(contestants), streamLoad, plan)
  for (const { server } of Object.values(contestants)) if (server !== undefined) await stop(server)
}

async function measureWorkload(workload, contestants) {
  console.error(workload.title)
  const ids = Object.keys(contestants)
  const cases = Object.values(contestants).map((each) => (each.isMissing ? each : caseOf(workload, each, backend, plan)))
  await warmUp(
    cases.filter(({ isCompiled }) => !isCompiled),
    load,
    plan,
  )
  const samples = await measureInTurns(cases, load, plan)
  const nginx = samples.get(cases[ids.indexOf('nginx')]) ?? []
  const ratioOf = (each) => (each === cases[ids.indexOf('nginx')] ? undefined : speedRatio(samples.get(each), nginx))
  const { title, unit, target } = workload
  const rows = rowsOf(cases, samples, ratioOf)
  const judged = target && atLeast(`${title}, edge : nginx`, rows[ids.indexOf('edge')]?.ratio, target)
  return { title, unit, rows, target: judged }
}

function startScript(name) {
  return start(OTHERS, new URL(`./proxy/${name}.mjs`, import.meta.url))
}
