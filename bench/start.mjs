// `npm run bench:start`: how long `edge serve` takes from its spawn until its port accepts and it is ready with a bundle, beside a bare node
// and two threads with a node:http server. Starts are interleaved. BENCH_OTHER=/path/to/checkout, built, takes part beside this one.
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
console.log(`node ${process.version}, medians of ${ROUNDS} interleaved starts; edge with 2 workers and a bundle file`)
console.log(`load of the machine before: ${load.toFixed(1)}; above 1 the times are rough, and the ratios less so\n`)
console.log(line('', 'listens ms', 'ready ms', 'CPU ms', '× node -e 0', '× two threads'))
for (const row of rows) {
  const cpuMs = column(row, 'cpuMs')
  console.log(
    line(
      row.name,
      median(column(row, 'listeningMs')).toFixed(0),
      median(column(row, 'readyMs')).toFixed(0),
      cpuMs.includes(undefined) ? '' : median(cpuMs).toFixed(0),
      ratio(column(row, 'readyMs'), column(node, 'readyMs')).median.toFixed(2),
      ratio(column(row, 'readyMs'), column(hello, 'readyMs')).median.toFixed(2),
    ),
  )
}
for (const row of rows.filter(({ name }) => name === 'decision_service' || name === 'reverse_proxy')) {
  const listensMs = median(column(row, 'listeningMs'))
  console.log(`\n${row.name} listens in under ${TARGET_MS} ms: ${listensMs < TARGET_MS ? 'met' : 'MISSED'}`)
}

function column({ starts }, name) {
  return starts.map((start) => start[name])
}

function line(name, ...columns) {
  return (name.padEnd(26) + columns.map((text) => text.padStart(14)).join('')).trimEnd()
}
