/**
 * The memory of an idle instance by its number of workers, and what each worker adds: the resident set of the process, the median of several starts.
 * Usage: node bench/idle-memory.mjs [STARTS], after npm run build.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { residentBytes } from './support/memory.mjs'
import { MEASURED, start, stop } from './support/processes.mjs'
import { median } from './support/statistics.mjs'

const STARTS = Number(process.argv[2] ?? 5)
const WORKERS = [1, 2, 4, 8]
/** By then a start is over. */
const SETTLED_MS = 3000
const MIB = 1024 * 1024
const PROGRAM = new URL('../program/edge.js', import.meta.url)
const BUNDLE = new URL('../examples/quickstart.json', import.meta.url).pathname

const MODES = {
  decision_service: {},
  'decision_service, admin API': { EDGE_ADMIN_PORT: '0', EDGE_ADMIN_TOKEN: 'a'.repeat(32) },
  reverse_proxy: { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:9' },
}

console.log(`node ${process.version}, medians of ${STARTS} starts, MiB\n`)
console.log(['workers'.padEnd(30), ...WORKERS.map((workers) => String(workers).padStart(7)), 'each'.padStart(7)].join(''))
for (const [name, env] of Object.entries(MODES)) {
  const sizes = []
  for (const workers of WORKERS) sizes.push(await idleBytes({ ...env, EDGE_WORKERS: String(workers) }))
  const each = (sizes.at(-1) - sizes[0]) / (WORKERS.at(-1) - WORKERS[0])
  console.log(name.padEnd(30) + [...sizes, each].map((bytes) => (bytes / MIB).toFixed(0).padStart(7)).join(''))
}

async function idleBytes(env) {
  const sizes = []
  for (let i = 0; i < STARTS; i++) {
    const edge = await start(MEASURED, PROGRAM, {
      args: ['serve'],
      env: { EDGE_CONFIG_FILE: BUNDLE, EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', EDGE_LOG_LEVEL: 'error', ...env },
    })
    await sleep(SETTLED_MS)
    sizes.push(residentBytes(edge.pid))
    await stop(edge)
  }
  return median(sizes)
}
