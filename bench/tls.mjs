// `npm run bench:tls [-- --only decision,files] [--rounds 11] [--against DIR] [--node-wire]`: what TLS to clients costs, beside nginx.
//
// The figure is CPU time per request, event or connection, user and system, of the server with all its threads and children. nginx and edge
// serve the same over plain TCP and over TLS 1.3, with the same cipher and the same P-256 key. The server is bound to one core; the load and
// the backend share the other, and `load` says how much of that core they used: if that is near 100 %, requests/s is their limit, not the
// server's. Contestants take turns, round after round; figures are medians over the rounds, ratios are medians of the per-round ratios.
// `--only memory` measures the memory of connections instead, see tls/memory.mjs.
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { findProgram } from './decision/programs.mjs'
import { figures, measureInTurns, warmUp } from './decision/rounds.mjs'
import { newWrkLoad } from './decision/wrk.mjs'
import { whole } from './support/numbers.mjs'
import { hasCores, OTHERS, start } from './support/processes.mjs'
import { median, ratio } from './support/statistics.mjs'
import { formatRatio, line } from './support/text-table.mjs'
import { newCertificate } from './tls/certificate.mjs'
import { startContestants } from './tls/contestants.mjs'
import { measureMemory } from './tls/memory.mjs'
import { writeResults } from './tls/results.mjs'
import { caseOf, WORKLOADS } from './tls/workloads.mjs'

const PARTS = [...Object.keys(WORKLOADS), 'memory']
const OPTIONS = {
  only: { type: 'string', default: Object.keys(WORKLOADS).join() },
  rounds: { type: 'string', default: '11' },
  against: { type: 'string' },
  'node-wire': { type: 'boolean', default: false },
}
const NAMES = { nginx: 'nginx', edge: 'edge', node: 'edge, node:http wire', other: 'edge, other build' }

if (process.platform !== 'linux') throw new Error('CPU time is read from /proc: this needs Linux')
const { only, rounds: roundsText, against, 'node-wire': hasNodeWire } = parseArgs({ options: OPTIONS }).values
const rounds = Number(roundsText)
if (!(Number.isInteger(rounds) && rounds > 0)) throw new Error(`--rounds ${roundsText}: expected a whole number above 0`)
const parts = only.split(',')
const unknown = parts.filter((part) => !PARTS.includes(part))
if (unknown.length > 0) throw new Error(`--only ${unknown.join()}: not one of ${PARTS.join(', ')}`)

const openssl = neededProgram('openssl')
const nginx = findProgram('nginx')
if (nginx === undefined) console.error('\n*** nginx IS NOT INSTALLED: its rows are missing. See bench/install-debian-parts.sh ***\n')
const pair = newCertificate(openssl)
const backend = await start(OTHERS, new URL('./proxy/backend.mjs', import.meta.url))
const tools = { openssl, backend, wrk: newWrkLoad(neededProgram('wrk')) }
const [machineLoad] = loadavg()
console.log(
  `node ${process.version}, ${rounds} interleaved rounds of 1 s; load: ${tools.wrk.name}, ${tools.wrk.details}; load of the machine before: ${machineLoad.toFixed(1)}`,
)
if (!hasCores) console.log('*** no taskset: cores are shared, figures are rough ***')

const results = { method: { rounds, roundSeconds: 1, machineLoad }, groups: [] }
if (parts.includes('memory')) await measureMemory({ nginx, backend, pair })
const timed = parts.filter((part) => part !== 'memory')
if (timed.length > 0) {
  const contestants = await startContestants({ nginx, backend, pair, against, hasNodeWire })
  for (const part of timed) results.groups.push(await measureWorkload(part, contestants))
}
if (only === OPTIONS.only.default && against === undefined && !hasNodeWire) writeResults(results)
// Servers are still up; they end with us.
process.exit()

async function measureWorkload(id, contestants) {
  const workload = WORKLOADS[id]
  const isMeasured = (contestant) => workload.job === 'proxies' || contestant !== 'node'
  const cases = Object.entries(contestants)
    .filter(([contestant]) => isMeasured(contestant))
    .flatMap(([contestant, { plain, secured }]) => [
      ...(workload.isSecureOnly ? [] : [newCase(workload, contestant, plain, false)]),
      newCase(workload, contestant, secured, true),
    ])
  await warmUp(cases, undefined, { warmUpRequests: workload.warmUp, warmUpSeconds: 20 })
  for (const { loads } of cases) loads.length = 0
  const samples = await measureInTurns(cases, undefined, { rounds, roundSeconds: 1 })
  const costs = (contestant, isSecure) =>
    samples.get(cases.find((each) => each.contestant === contestant && each.isSecure === isSecure))?.map(({ cpuUs }) => cpuUs)
  const ratioTo = (other, { contestant, isSecure }) => other && ratio(costs(contestant, isSecure), other)
  const rows = cases.map((each) => ({
    name: each.name,
    ...figures(samples.get(each)),
    load: median(each.loads),
    toNginx: each.contestant === 'nginx' ? undefined : ratioTo(costs('nginx', each.isSecure), each),
    toPlain: each.isSecure ? ratioTo(costs(each.contestant, false), each) : undefined,
  }))
  console.log(
    `\n${line(workload.title, `CPU µs/${workload.unit}`, `${workload.unit}s/s`, 'busy', 'load', 'TLS : plain', 'middle half', 'nginx = 1', 'middle half')}`,
  )
  for (const row of rows) console.log(formatRow(row))
  return { id, title: workload.title, unit: workload.unit, rows }
}

function newCase(workload, contestant, servers, isSecure) {
  const name = `${NAMES[contestant]}${isSecure ? ', TLS' : ''}`
  return { ...caseOf(workload, { name, servers, isSecure }, tools), contestant, isSecure }
}

function formatRow({ name, cpuUs, perSecond, busy, load, toPlain, toNginx }) {
  const ratios = [...(toPlain === undefined ? ['', ''] : formatRatio(toPlain)), ...formatRatio(toNginx)]
  return line(`  ${name}`, cpuUs.toFixed(1), whole(perSecond), `${whole(busy * 100)} %`, `${whole(load * 100)} %`, ...ratios)
}

function neededProgram(name) {
  const file = findProgram(name)
  if (file === undefined) throw new Error(`${name} is not installed: see bench/install-debian-parts.sh`)
  return file
}
