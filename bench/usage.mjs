// `npm run bench:usage [-- --rounds 21]`: what the usage log adds to the CPU time and to the delay of an LLM request with a budget of tokens and one of
// money. CPU time is that of the whole process, the thread that writes the files included; delays are those of 100 requests a second.
//
// `edge` is alone on one core; the load and `edge fake-llm` share the other. The two cases take turns; figures are medians over the rounds, and what is
// added is the median of the differences within a round, and the quarters around it.
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { cpuTimes, usedUs } from './decision/cpu-time.mjs'
import { textOf } from './decision/requests.mjs'
import { ask, hasCores, MEASURED, OTHERS, start } from './support/processes.mjs'
import { newScratchDirectory } from './support/scratch.mjs'
import { median, quartiles } from './support/statistics.mjs'
import { line } from './support/text-table.mjs'

const EDGE = new URL('../program/edge.js', import.meta.url)
const LOAD = { connections: 16, depth: 1, ms: 1000 }
const STEADY = { perSecond: 100, seconds: 1 }
const WARM_UP_ROUNDS = 4
const BODY = JSON.stringify({ model: 'gpt-4o', max_tokens: 20, messages: [{ role: 'user', content: 'word'.repeat(200) }] })
const REQUEST = textOf({
  method: 'POST',
  path: '/v1/chat/completions',
  fields: { Host: 'a', 'X-Team': 'search', 'Content-Type': 'application/json', 'Content-Length': BODY.length },
  body: BODY,
})
const rule = (name, algorithm, algorithm_config) => ({ name, limit_keys: ['header:x-team'], algorithm, algorithm_config })
const BUNDLE = {
  bundle_version: 1,
  usage: { labels: ['header:x-team', 'llm:model'] },
  prices: { list: { '*': { input: 2.5, output: 10 } } },
  policies: [
    {
      id: 'teams',
      spec: {
        rules: [
          rule('tokens', 'token_bucket_llm', { tokens_per_day: 900_000_000_000 }),
          rule('money', 'cost_budget', { budget: 9_000_000, period: '1mo', prices: 'list' }),
        ],
      },
    },
  ],
}

const rounds = Number(parseArgs({ options: { rounds: { type: 'string', default: '21' } } }).values.rounds)
if (!(Number.isInteger(rounds) && rounds > 0)) throw new Error('--rounds: expected a whole number above 0')
const [load] = loadavg()
const backend = await start(OTHERS, EDGE, { args: ['fake-llm', '--port', '0', '--tokens', '20'] })
const generator = await start(OTHERS, new URL('./decision/socket-generator.mjs', import.meta.url))
const steady = await start(OTHERS, new URL('./decision/fixed-rate-generator.mjs', import.meta.url))
const off = await newCase('no EDGE_USAGE_DIR', {})
const on = await newCase('EDGE_USAGE_DIR', { EDGE_USAGE_DIR: join(newScratchDirectory(), 'usage') })
for (let round = -WARM_UP_ROUNDS; round < rounds; round++) {
  for (const each of round % 2 === 0 ? [off, on] : [on, off]) {
    const figures = await measure(each.server)
    if (round >= 0) for (const [name, figure] of Object.entries(figures)) each[name].push(figure)
  }
}

console.log(`node ${process.version}, ${rounds} interleaved rounds; load of the machine before: ${load.toFixed(1)}`)
if (!hasCores) console.log('*** no taskset: cores are shared, figures are rough ***')
for (const [name, what] of Object.entries({ cpuUs: 'CPU of a request', p50: 'delay, median', p99: 'delay, 99th percentile' })) {
  const { median: added, low, high } = quartiles(on[name].map((us, round) => us - off[name][round]))
  console.log(`\n${line(what, 'µs', 'added', 'from', 'to')}`)
  console.log(line(`  ${off.name}`, median(off[name]).toFixed(0)))
  console.log(line(`  ${on.name}`, ...[median(on[name]), added, low, high].map((us) => us.toFixed(0))))
}
// Servers are still up; they end with us.
process.exit()

async function newCase(name, env) {
  const path = join(newScratchDirectory(), 'bundle.json')
  writeFileSync(path, JSON.stringify(BUNDLE))
  const server = await start(MEASURED, EDGE, {
    args: ['serve'],
    env: {
      EDGE_MODE: 'reverse_proxy',
      EDGE_BACKEND_URL: `http://127.0.0.1:${backend.port}`,
      EDGE_CONFIG_FILE: path,
      EDGE_HOST: '127.0.0.1',
      EDGE_PORT: '0',
      EDGE_LOG_LEVEL: 'error',
      EDGE_WORKERS: '1',
      ...env,
    },
  })
  return { name, server, cpuUs: [], p50: [], p99: [] }
}

async function measure(server) {
  const before = cpuTimes(server.pid)
  const { requests, rejected, failed } = await ask(generator, 'run', { port: server.port, text: REQUEST, ...LOAD })
  if (rejected + failed > 0) throw new Error(`${rejected + failed} of ${requests} requests were not answered`)
  const cpuUs = usedUs(before, cpuTimes(server.pid)) / requests
  return { cpuUs, ...(await ask(steady, 'run', { port: server.port, text: REQUEST, ...STEADY })) }
}
