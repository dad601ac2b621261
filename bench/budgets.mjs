// `npm run bench:budgets`: does a token budget hold? edge (one instance, and three on Redis) and LiteLLM's proxy, before the same fake LLM; nginx and
// envoyproxy/ratelimit take part where they can. Prints tables, and writes them to bench/results/budgets.json, into the picture beside it and into
// docs/comparison.md.
//
// The parts are independent: `--only parallel,cost` runs some of them and prints only; with `--write` it also replaces what is written of them.
// `--rounds 9` measures costs in more rounds than five, and `--at-once 50` leaves the bursts of 200 out. `--quick` tries things out, with fewer requests and rounds, and writes nothing.
import { spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'
import { measureAborts } from './budgets/aborts.mjs'
import { measureAgents } from './budgets/agents.mjs'
import { startBackends } from './budgets/backends.mjs'
import { measureCost } from './budgets/cost.mjs'
import { hasLitellm, startLitellms, stopLitellms } from './budgets/litellm.mjs'
import { measureMoney } from './budgets/money.mjs'
import { measureParallel } from './budgets/parallel.mjs'
import { measureRedisStopped } from './budgets/redis-stopped.mjs'
import { writeResults } from './budgets/results.mjs'
import { measureSilent } from './budgets/silent.mjs'
import { TABLES } from './budgets/tables.mjs'
import { findProgram } from './decision/programs.mjs'
import { hasCores, OTHERS } from './support/processes.mjs'
import { startRedis } from './support/redis.mjs'
import { busyShare, stealDuring } from './support/steal.mjs'

const PARTS = {
  parallel: (parts) => measureParallel(parts, quick ? [50] : atOnce.split(',').map(Number)),
  aborts: (parts) => measureAborts(parts),
  silent: (parts) => measureSilent(parts),
  redis: (parts) => measureRedisStopped(parts),
  agents: (parts) => measureAgents(parts),
  money: (parts) => measureMoney(parts),
  cost: (parts) => measureCost(parts, quick ? 1 : Number(rounds)),
}
/** These start a LiteLLM of their own, so that no other is on its core. */
const WITH_THEIR_OWN = ['money', 'cost']
/** How long the machine is looked at before and after a part, to tell whether others use it. */
const LOOK_MS = 2000

if (process.platform !== 'linux') throw new Error('CPU time is read from /proc: this needs Linux')
const {
  only,
  quick,
  write,
  rounds,
  'at-once': atOnce,
} = parseArgs({
  options: {
    only: { type: 'string' },
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '5' },
    'at-once': { type: 'string', default: '50,200' },
    write: { type: 'boolean', default: false },
  },
}).values
const names = only?.split(',') ?? Object.keys(PARTS)
const unknown = names.filter((name) => !Object.hasOwn(PARTS, name))
if (unknown.length > 0) throw new Error(`--only ${unknown.join()}: not one of ${Object.keys(PARTS).join(', ')}`)
const redisServer = findProgram('redis-server')
if (redisServer === undefined) throw new Error('redis-server is not installed, see bench/install-debian-parts.sh')
if (!hasLitellm) console.error('\n*** LITELLM IS NOT INSTALLED: its rows stay empty. See bench/budgets/litellm/install.sh ***\n')
// The clients are in this process.
if (hasCores) spawnSync('taskset', ['-cp', String(OTHERS), String(process.pid)])

const ports = await startBackends()
const redis = await startRedis(redisServer)
const parts = { ports, redis, redisPort: redis.port, litellm: undefined }
for (const name of names) {
  await prepareLitellm(name)
  const before = await busyShare(LOOK_MS)
  const { result, steal } = await stealDuring(() => PARTS[name](parts))
  const othersShare = Math.max(before, await busyShare(LOOK_MS))
  const measured = { date: new Date().toISOString().slice(0, 10), othersShare, stealShare: steal, ...result }
  console.log(`\n${TABLES[name](measured)}\n`)
  // Part by part, so that what takes a quarter of an hour is not lost in its last minute.
  if (!quick && (only === undefined || write)) writeResults(name, measured)
}
// Servers are still up; they end with us.
process.exit()

async function prepareLitellm(name) {
  if (!hasLitellm) return
  if (WITH_THEIR_OWN.includes(name)) {
    await stopLitellms(parts.litellm)
    parts.litellm = undefined
  } else if (parts.litellm === undefined) {
    console.error('LiteLLM starts, which takes a while')
    parts.litellm = await startLitellms(ports, redis.port)
  }
}
