// `npm run bench:wire -- --against DIR [--rounds 31]`: CPU time of a request over a socket, all threads of `edge serve`, beside another built
// checkout: with everything off, and with each of what operators may switch on. All servers live side by side on one core and are asked in
// turn, in short slices, so that a busy machine slows all of them alike. The other build takes part twice: how far it is from itself is the
// noise.
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { cpuTimes, usedUs } from './decision/cpu-time.mjs'
import { DECISION, textOf } from './decision/requests.mjs'
import { oneRule, policy } from './support/bundle.mjs'
import { ask, MEASURED, OTHERS, start, stop } from './support/processes.mjs'
import { newScratchDirectory } from './support/scratch.mjs'
import { quartiles } from './support/statistics.mjs'

const SLICE_MS = 250
const WARM_UP_REQUESTS = 60_000
const WARM_UP_SLICES = 100
const LOAD = { connections: 16, depth: 8, ms: SLICE_MS }
const PROXIED = { method: 'GET', path: '/items/42', fields: { Host: '127.0.0.1', 'X-Api-Key': 'key-1000000' } }

const options = { against: { type: 'string' }, rounds: { type: 'string', default: '31' } }
const { against, rounds } = parseArgs({ options }).values
if (against === undefined) throw new Error('--against needs another built checkout')

const here = fileURLToPath(new URL('..', import.meta.url))
const scratch = newScratchDirectory()
const bundle = join(scratch, 'bundle.json')
writeFileSync(bundle, JSON.stringify({ bundle_version: 1, policies: [policy('bench', '/', oneRule())] }))
const generator = await start(OTHERS, new URL('./decision/socket-generator.mjs', import.meta.url))
const collector = await start(OTHERS, new URL('./tracing/collector.mjs', import.meta.url))
const backend = await start(OTHERS, new URL('./proxy/backend.mjs', import.meta.url))
const proxyEnv = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: `http://127.0.0.1:${backend.port}` }

const [load] = loadavg()
console.log(`node ${process.version}, ${rounds} interleaved rounds of ${SLICE_MS} ms; load of the machine before: ${load.toFixed(1)}`)
await compare('decision_service', DECISION, {})
await compare('reverse_proxy', PROXIED, proxyEnv)
process.exit()

async function compare(title, request, env) {
  const servers = []
  for (const contestant of contestants(title)) servers.push(await newServer(contestant, textOf(request), env))
  for (const server of servers) await warmUp(server)
  for (let round = 0; round < Number(rounds); round++) {
    for (let i = 0; i < servers.length; i++) {
      const server = servers[(round + i) % servers.length]
      server.cpuUs[round] = (await slice(server)).cpuUs
    }
  }
  console.log(`\n${line(title, 'CPU µs', 'ratio', 'middle half')}`)
  for (const { name, cpuUs } of servers) {
    const { median, low, high } = quartiles(cpuUs.map((us, round) => us / servers[0].cpuUs[round]))
    console.log(line(`  ${name}`, quartiles(cpuUs).median.toFixed(2), median.toFixed(3), `${low.toFixed(3)}–${high.toFixed(3)}`))
  }
  for (const { child } of servers) await stop(child)
}

function contestants(title) {
  const other = resolve(against)
  return [
    { name: 'the other build', directory: other },
    { name: 'the other build again', directory: other },
    { name: 'this build', directory: here },
    { name: 'with EDGE_ADMIN_TOKEN', directory: here, env: { EDGE_ADMIN_PORT: '0', EDGE_ADMIN_TOKEN: 'x'.repeat(40) } },
    { name: 'with EDGE_DECISION_LOG', directory: here, env: { EDGE_DECISION_LOG: join(scratch, `${title}.log`) } },
    { name: 'with EDGE_OTLP_URL, 1 %', directory: here, env: { EDGE_OTLP_URL: `http://127.0.0.1:${collector.port}` } },
  ]
}

async function newServer({ name, directory, env }, text, modeEnv) {
  const common = { EDGE_CONFIG_FILE: bundle, EDGE_HOST: '127.0.0.1', EDGE_PORT: '0', EDGE_LOG_LEVEL: 'error', EDGE_WORKERS: '1' }
  const main = pathToFileURL(join(directory, 'program/edge.js'))
  return { name, text, cpuUs: [], child: await start(MEASURED, main, { args: ['serve'], env: { ...common, ...modeEnv, ...env } }) }
}

async function warmUp(server) {
  let asked = 0
  for (let i = 0; i < WARM_UP_SLICES && asked < WARM_UP_REQUESTS; i++) asked += (await slice(server)).requests
}

async function slice({ child, text }) {
  const before = cpuTimes(child.pid)
  const { requests, rejected, failed } = await ask(generator, 'run', { port: child.port, text, ...LOAD })
  if (rejected + failed > 0) throw new Error('a request was not allowed')
  return { requests, cpuUs: usedUs(before, cpuTimes(child.pid)) / requests }
}

function line(name, ...columns) {
  return (name.padEnd(30) + columns.map((column) => column.padStart(14)).join('')).trimEnd()
}
