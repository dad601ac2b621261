// `npm run bench:backends [-- --only routes] [--rounds 11]`: what routes and backends cost.
//   routes   CPU time of a request with EDGE_BACKEND_URL alone, with one route, and with a thousand of them
//   stopped  delays of requests to healthy backends, while the one beside them is stopped and when it is well
//
// `edge` is alone on one core; the load and the backends share the other. Cases take turns, round after round; figures are medians over the rounds, and
// ratios are medians of the per-round ratios.
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { measureRoutes } from './backends/routes.mjs'
import { measureStopped } from './backends/stopped.mjs'
import { hasCores } from './support/processes.mjs'
import { formatTargets } from './support/text-table.mjs'

const PARTS = { routes: measureRoutes, stopped: measureStopped }
const options = { only: { type: 'string', default: Object.keys(PARTS).join() }, rounds: { type: 'string', default: '11' } }
const { only, rounds: roundsText } = parseArgs({ options }).values
const rounds = Number(roundsText)
if (!(Number.isInteger(rounds) && rounds > 0)) throw new Error(`--rounds ${roundsText}: expected a whole number above 0`)
const unknown = only.split(',').filter((part) => !(part in PARTS))
if (unknown.length > 0) throw new Error(`--only ${unknown.join()}: not one of ${Object.keys(PARTS).join(', ')}`)

const [load] = loadavg()
console.log(`node ${process.version}, ${rounds} interleaved rounds; load of the machine before: ${load.toFixed(1)}`)
if (!hasCores) console.log('*** no taskset: cores are shared, figures are rough ***')
const targets = []
for (const part of only.split(',')) targets.push(...(await PARTS[part](rounds)))
console.log(formatTargets(targets).join('\n'))
// Servers are still up; they end with us.
process.exit()
