// `npm run bench:tracing`: what traces add to the CPU time of a decision, from its head in memory to its answer, with all that is sent to a
// collector. Each case has a process of its own, and they take turns, so that a busy machine slows all of them alike. Figures are medians over
// the rounds; what is added is the median of the differences within a round.
import { loadavg } from 'node:os'
import { DECISION, textOf } from './decision/requests.mjs'
import { ask, MEASURED, OTHERS, start } from './support/processes.mjs'
import { quartiles } from './support/statistics.mjs'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 31)
const WARM_UP_ROUNDS = 3
const DECISIONS = 50_000

const [load] = loadavg()
const collector = await start(OTHERS, new URL('./tracing/collector.mjs', import.meta.url))
const url = `http://127.0.0.1:${collector.port}`
const plain = textOf(DECISION)
const untraced = textOf({ ...DECISION, fields: { ...DECISION.fields, traceparent: `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-00` } })

const off = await newCase('no EDGE_OTLP_URL', { text: plain })
const cases = [
  off,
  await newCase('EDGE_OTLP_SAMPLE=0.01', { text: plain, url, share: 0.01 }),
  await newCase('the same, callers that do not trace', { text: untraced, url, share: 0.01 }),
  await newCase('EDGE_OTLP_SAMPLE=1', { text: plain, url, share: 1 }),
]
for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
  for (const each of cases) {
    const { cpuUs } = await ask(each.child, 'decide', { count: DECISIONS })
    if (round >= WARM_UP_ROUNDS) each.cpuUs.push(cpuUs)
  }
}

console.log(`node ${process.version}, ${ROUNDS} interleaved rounds; load of the machine before: ${load.toFixed(1)}\n`)
console.log(line('', 'CPU µs', 'added', 'middle half'))
for (const { name, cpuUs } of cases) {
  const { median, low, high } = quartiles(cpuUs.map((us, round) => us - off.cpuUs[round]))
  console.log(line(name, quartiles(cpuUs).median.toFixed(2), median.toFixed(2), `${low.toFixed(2)}–${high.toFixed(2)}`))
}
process.exit()

async function newCase(name, options) {
  const child = await start(MEASURED, new URL('./tracing/traced-decisions.mjs', import.meta.url), { args: [JSON.stringify(options)] })
  return { name, child, cpuUs: [] }
}

function line(name, ...columns) {
  return (name.padEnd(40) + columns.map((column) => column.padStart(14)).join('')).trimEnd()
}
