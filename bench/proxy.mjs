// `npm run bench:proxy [-- --only items,post] [--rounds 11] [--against DIR] [--contestants nginx,edge]`: what the reverse proxy costs, beside nginx, HAProxy and a bare
// undici pass-through.
//
// The figure is CPU time per request or event, user and system, of the proxy with all its threads and children. The proxy is
// bound to one core; the load and the backend share the other. Contestants take turns, round after round; figures are
// medians over the rounds, ratios are medians of the per-round ratios. Each is first shown to do its job.
import { newLoad } from './decision/load.mjs'
import { measureInTurns, speedRatio, warmUp } from './decision/rounds.mjs'
import { rowsOf } from './decision/rows.mjs'
import { startContestants } from './proxy/contestants.mjs'
import { readPlan } from './proxy/plan.mjs'
import { formatGroup } from './proxy/table.mjs'
import { caseOf, WORKLOADS } from './proxy/workloads.mjs'
import { hasCores, OTHERS, start } from './support/processes.mjs'

if (process.platform !== 'linux') throw new Error('CPU time is read from /proc: this needs Linux')
const plan = readPlan(process.argv.slice(2))
const load = await newLoad()
console.error(`load: ${load.name}, ${load.details}${hasCores ? '' : '\n*** no taskset: cores are shared, figures are rough ***'}`)
const backend = await start(OTHERS, new URL('./proxy/backend.mjs', import.meta.url))
const contestants = await startContestants(backend, plan)

for (const [id, workload] of Object.entries(WORKLOADS)) if (plan.has(id)) console.log(formatGroup(await measure(workload)))
// Servers are still up; they end with us.
process.exit()

async function measure(workload) {
  console.error(workload.title)
  const cases = Object.values(contestants).map((each) => (each.isMissing ? each : caseOf(workload, each, backend)))
  const nginx = cases[Object.keys(contestants).indexOf('nginx')]
  await warmUp(cases, load, plan)
  const samples = await measureInTurns(cases, load, plan)
  const { title, unit, target } = workload
  const rows = rowsOf(cases, samples, (each) => (each === nginx ? undefined : speedRatio(samples.get(each), samples.get(nginx) ?? [])))
  return { title, unit, target, rows }
}
