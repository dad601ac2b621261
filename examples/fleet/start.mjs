// Two instances of edge and one Redis between them, until Ctrl-C.
//
//   node examples/fleet/start.mjs [PORT]     ports PORT and PORT + 1, or 8081 and 8082; 0: any that are free
//
// Everything listens on 127.0.0.1 alone. Redis keeps nothing on disk. EDGE_* variables go to both instances.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const EDGE = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const LIMITS = fileURLToPath(new URL('./limits.yaml', import.meta.url))

const firstPort = Number(process.argv[2] ?? 8081)
if (!Number.isInteger(firstPort)) fail('The argument is a port, or 0 for any that is free.')
if (!existsSync(EDGE)) fail('edge is not built yet: npm ci && npm run build')

const directory = mkdtempSync(join(tmpdir(), 'edge-fleet-'))
const children = []
let isEnding = false
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => end(0))
// A terminal that was closed takes no more lines, and that must not keep us from ending the others.
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

/** In a group of its own, so that Ctrl-C reaches us alone and each is ended once and in order. */
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

/** Whoever ends first, or is told to, ends all: the instances before Redis, so that they can give back what they hold. */
async function end(status) {
  if (isEnding) return
  isEnding = true
  for (const child of children.toReversed()) {
    // Redis has nothing to save, and one that was stopped hears nothing else.
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
  // It has ended, and said why; so do we.
  return new Promise(() => {})
}

/** One that ends meanwhile refuses the connection; `end` sees to that. */
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
  redis://127.0.0.1:${redisPort} between them

Five requests at once for each key, whoever is asked. The sixth line is 429:
  for port in ${one} ${two} ${one} ${two} ${one} ${two}; do
    curl -s -o /dev/null -w "$port %{http_code}\\n" -X POST http://127.0.0.1:$port/v1/decision \\
      -H 'X-Original-Method: GET' -H 'X-Original-URI: /api/hello' -H 'X-Api-Key: alice'
  done

What is in Redis, and what an instance says of it:
  redis-cli -p ${redisPort} --scan --pattern 'edge:*'
  curl -s http://127.0.0.1:${one}/metrics | grep '^edge_redis'

Take Redis away, ask again with another key, and let it come back:
  kill -STOP ${redis.pid}
  kill -CONT ${redis.pid}
  curl -s http://127.0.0.1:${one}/readyz

Ctrl-C ends all of it.`
}

function fail(why) {
  console.error(why)
  process.exit(1)
}
