// Two instances of edge that share a Redis, until Ctrl-C.
//
//   node examples/fleet/start.mjs [PORT]     ports PORT and PORT + 1; default 8081 and 8082; 0: any free ports
//
// Everything listens only on 127.0.0.1. Redis stores nothing on disk. EDGE_* variables apply to both instances.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const EDGE = fileURLToPath(new URL('../../program/edge.js', import.meta.url))
const LIMITS = fileURLToPath(new URL('./limits.yaml', import.meta.url))

const firstPort = Number(process.argv[2] ?? 8081)
if (!Number.isInteger(firstPort)) fail('Expected a port as the argument, or 0 for any free port.')
if (!existsSync(EDGE)) fail('edge is not built yet: npm ci && npm run build')

const directory = mkdtempSync(join(tmpdir(), 'edge-fleet-'))
const children = []
let isEnding = false
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => end(0))
// Writing to a closed terminal fails; that must not keep us from stopping the others.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

const redisPort = await freePort()
const redis = startRedis(redisPort)
const instances = [startEdge(firstPort), startEdge(firstPort && firstPort + 1)]
const ports = await Promise.all(instances.map(portOf))
await Promise.all(ports.map(isReady))
console.log(greeting(ports))

function startRedis(port) {
  const options = { port, bind: '127.0.0.1', dir: directory, save: '', appendonly: 'no', loglevel: 'warning' }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  return start('redis-server', args, { stdio: ['ignore', 'ignore', 'inherit'] })
}

function startEdge(port) {
  const env = {
    EDGE_CONFIG_FILE: LIMITS,
    EDGE_LOG_LEVEL: 'warn',
    ...process.env,
    EDGE_HOST: '127.0.0.1',
    EDGE_PORT: String(port),
    EDGE_REDIS_URL: `redis://127.0.0.1:${redisPort}`,
  }
  return start(process.execPath, [EDGE, 'serve'], { env, stdio: ['ignore', 'pipe', 'inherit'] })
}

/** In a process group of its own, so that Ctrl-C reaches only this process, which stops each child once and in order. */
function start(file, args, options) {
  const child = spawn(file, args, { ...options, detached: true })
  child.gone = new Promise((resolve) => {
    child.once('exit', resolve)
    child.once('error', (error) => {
      if (error.code === 'ENOENT') console.error(`${file} is not installed; on Debian: apt-get install redis-server`)
      else console.error(error.message)
      resolve()
    })
  })
  children.push(child)
  void child.gone.then(() => end(1))
  return child
}

/** When one process ends, or on a signal, all are stopped: the instances before Redis, so that they can return their leases. */
async function end(status) {
  if (isEnding) return
  isEnding = true
  for (const child of children.toReversed()) {
    // Redis has nothing to save, and a stopped process (SIGSTOP) reacts only to SIGKILL.
    child.kill(child === redis ? 'SIGKILL' : 'SIGTERM')
    await child.gone
  }
  rmSync(directory, { recursive: true, force: true })
  process.exit(status)
}

/** The instance prints its address when it listens. */
async function portOf(child) {
  let printed = ''
  for await (const chunk of child.stdout) {
    printed += chunk
    const port = /listens\s+http:\S*:(\d+)/.exec(printed)?.[1]
    if (port !== undefined) return Number(port)
  }
  // The instance has ended and printed why; `end` stops the rest.
  return new Promise(() => {})
}

/** If the instance ends meanwhile, the connection is refused; `end` handles that. */
async function isReady(port) {
  const asked = () => fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined)
  while (!(await asked())?.ok) await sleep(20)
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

function greeting([one, two]) {
  return `
Two instances, one limit:
  http://127.0.0.1:${one}
  http://127.0.0.1:${two}
  redis://127.0.0.1:${redisPort}, shared by both

Each key may send five requests at once, to both instances together. The sixth line is 429:
  for port in ${one} ${two} ${one} ${two} ${one} ${two}; do
    curl -s -o /dev/null -w "$port %{http_code}\\n" -X POST http://127.0.0.1:$port/v1/decision \\
      -H 'X-Original-Method: GET' -H 'X-Original-URI: /api/hello' -H 'X-Api-Key: alice'
  done

What is in Redis, and the metrics of an instance:
  redis-cli -p ${redisPort} --scan --pattern 'edge:*'
  curl -s http://127.0.0.1:${one}/metrics | grep '^edge_redis'

Stop Redis, send requests with another key, and let Redis continue:
  kill -STOP ${redis.pid}
  kill -CONT ${redis.pid}
  curl -s http://127.0.0.1:${one}/readyz

Ctrl-C stops everything.`
}

function fail(why) {
  console.error(why)
  process.exit(1)
}
