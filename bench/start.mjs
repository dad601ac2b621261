// `npm run bench:start`: how long `edge serve` takes from its spawn until its port accepts and it is ready with a bundle, and the CPU time of a
// start and a stop, beside a bare node and two threads with a node:http server. Starts are interleaved. BENCH_OTHER=/path/to/checkout, built,
// takes part beside this one, and BENCH_REDIS_URL adds a start with that Redis.
import { loadavg } from 'node:os'
import { contestants } from './start/contestants.mjs'
import { timedStart } from './start/timed-start.mjs'
import { median, ratio } from './support/statistics.mjs'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 10)
const TARGET_MS = 400

const [load] = loadavg()
const rows = contestants(process.env.BENCH_OTHER).map((contestant) => ({ ...contestant, starts: [] }))
for (let round = 0; round < ROUNDS + 1; round++) {
  for (const row of rows) {
    const start = await timedStart(row)
    if (round > 0) row.starts.push(start) // the first one fills the caches of the disk
  }
}

const [node, hello] = rows
console.log(
  `node ${process.version}, medians of ${ROUNDS} interleaved starts, and means of their CPU time; edge with a bundle file, and 2 workers unless it says so`,
)
console.log(`load of the machine before: ${load.toFixed(1)}; above 1 the times are rough, and the ratios less so\n`)
console.log(line('', 'listens ms', 'ready ms', 'CPU ms', 'CPU × node', '× node -e 0', '× two threads'))
for (const row of rows) {
  console.log(
    line(
      row.name,
      median(column(row, 'listeningMs')).toFixed(0),
      median(column(row, 'readyMs')).toFixed(0),
      mean(column(row, 'cpuMs')).toFixed(0),
      (mean(column(row, 'cpuMs')) / mean(column(node, 'cpuMs'))).toFixed(1),
      ratio(column(row, 'readyMs'), column(node, 'readyMs')).median.toFixed(2),
      ratio(column(row, 'readyMs'), column(hello, 'readyMs')).median.toFixed(2),
    ),
  )
}
for (const row of rows.filter(({ name }) => name === 'decision_service' || name === 'reverse_proxy')) {
  const listensMs = median(column(row, 'listeningMs'))
  console.log(`\n${row.name} listens in under ${TARGET_MS} ms: ${listensMs < TARGET_MS ? 'met' : 'MISSED'}`)
}

/** The system counts in steps of 10 ms, which the median of a few starts would show. */
function mean(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length
}

function column({ starts }, name) {
  return starts.map((start) => start[name])
}

function line(name, ...columns) {
  return (name.padEnd(36) + columns.map((text) => text.padStart(14)).join('')).trimEnd()
}
