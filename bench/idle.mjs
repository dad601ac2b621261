// `npm run bench:idle [-- --seconds 60] [--against DIR] [--only TEXT]`: what an instance takes while nobody asks it anything, by what is switched on.
//
// The figures are the CPU time of the process with all its threads and children, in milliseconds of each second, and how often a thread of it was
// woken. All of them are idle at the same time, for as long as it takes, so a busy machine disturbs all of them alike; the first row is a process of
// Node that does nothing. `--against` is another built checkout, whose instances are idle beside these; `--only` takes the rows whose name has the text.
import { readdirSync, readFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { cpuTimes, usedUs } from './decision/cpu-time.mjs'
import { contestants } from './idle/contestants.mjs'
import { MEASURED, startProgram } from './support/processes.mjs'
import { line } from './support/text-table.mjs'

if (process.platform !== 'linux') throw new Error('CPU time is read from /proc: this needs Linux')
const LOOK_MS = 500
/** CPU time between two looks below which a start is over. */
const QUIET_MS = 15
/**
 * By then most instances have released what they needed only for their start. V8 collects the last garbage of it when it finds that a thread allocates little,
 * which may be minutes later, and compiles what has run often enough: either takes 10 to 100 ms, once.
 */
const SETTLED_MS = 150_000
const TARGET_MS = 2
const HERE = fileURLToPath(new URL('../', import.meta.url))
const { seconds, against, only } = parseArgs({
  options: { seconds: { type: 'string', default: '60' }, against: { type: 'string' }, only: { type: 'string', default: '' } },
}).values

const groups = []
for (const checkout of [HERE, against].filter(Boolean))
  groups.push((await contestants(checkout)).filter(({ name }, i) => i === 0 || name.includes(only)))
const rows = groups[0].map((row, i) => [row, ...(i > 0 && against !== undefined ? [groups[1][i]] : [])])
for (const row of rows.flat()) if (!row.isMissing) row.server = await startAndSettle(row)
await sleep(SETTLED_MS)
const running = rows.flat().filter(({ server }) => server !== undefined)
for (const row of running) row.before = look(row.server)
await sleep(Number(seconds) * 1000)
for (const row of running) row.after = look(row.server)

console.log(
  `node ${process.version}, ${seconds} s without a request, ${running.length} processes at the same time, load of the machine ${loadavg()[0].toFixed(1)}`,
)
console.log(line('', 'CPU ms/s', 'wake-ups/s', ...(against === undefined ? [] : ['other: CPU', 'wake-ups/s'])))
for (const row of rows) console.log(line(row[0].name, ...row.flatMap(columns)))
const missed = rows.flatMap(([row], i) => (i > 0 && !row.isMissing && cpuMsPerSecond(row) > TARGET_MS ? [row.name] : []))
console.log(`\nat most ${TARGET_MS} ms of CPU a second: ${missed.length === 0 ? 'met' : `MISSED by ${missed.join('; ')}`}`)
// Servers are still up; they end with us.
process.exit()

/** One after the other: what a start leaves for later would be counted otherwise. */
async function startAndSettle({ args, env }) {
  const server = startProgram(MEASURED, process.execPath, args, { env })
  for (let usedMs = Number.POSITIVE_INFINITY; usedMs > QUIET_MS; ) {
    await sleep(LOOK_MS)
    const before = cpuTimes(server.pid)
    await sleep(LOOK_MS)
    usedMs = usedUs(before, cpuTimes(server.pid)) / 1000
  }
  return server
}

function look({ pid }) {
  return { atMs: performance.now(), times: cpuTimes(pid), wakeUps: wakeUps(pid) }
}

/** How often a thread slept until something woke it: what the scheduler counts as voluntary. */
function wakeUps(pid) {
  return readdirSync(`/proc/${pid}/task`)
    .map((thread) => Number(/^voluntary_ctxt_switches:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8'))[1]))
    .reduce((sum, count) => sum + count)
}

function cpuMsPerSecond({ before, after }) {
  return usedUs(before.times, after.times) / (after.atMs - before.atMs)
}

function columns(row) {
  if (row.isMissing) return ['not installed', '']
  const { before, after } = row
  return [cpuMsPerSecond(row).toFixed(2), (((after.wakeUps - before.wakeUps) * 1000) / (after.atMs - before.atMs)).toFixed(1)]
}
