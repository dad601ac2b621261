import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { freePort, listening } from '../decision/free-port.mjs'
import { findProgram, isExecutable } from '../decision/programs.mjs'
import { MEASURED, OTHERS, startProgram } from '../support/processes.mjs'
import { startRedis } from '../support/redis.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'
import { DESCRIPTOR, DOMAIN } from './grpc-methods.mjs'

const INSTALLER = readFileSync(new URL('../../scripts/test-parts/ratelimit.sh', import.meta.url), 'utf8')
const VERSION = /^version=(.*)$/m.exec(INSTALLER)[1]

export function ratelimitVersion() {
  return findRatelimit() === undefined ? 'not installed' : VERSION
}

/** Undefined where it, or the Redis that it needs, is not installed. */
export function findRatelimit() {
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
  const file = join(cache, 'edge-test-parts', `ratelimit-${VERSION}`, 'ratelimit')
  return isExecutable(file) && findProgram('redis-server') !== undefined ? file : undefined
}

/**
 * envoyproxy/ratelimit with one rule. It keeps counters in Redis or memcached only: a Redis of its own runs beside the load, and what that costs is not
 * counted. It is reached by a unix socket, which is cheaper for it, or over TCP where it stands beside an edge that reaches Redis in that way.
 */
export async function startRatelimit(file, limit, { isRedisOverTcp = false } = {}) {
  const directory = newScratchDirectory()
  const redis = isRedisOverTcp ? await startRedis(findProgram('redis-server')) : await startRedisOnSocket(join(directory, 'redis.sock'))
  mkdirSync(join(directory, 'config'))
  writeFileSync(join(directory, 'config', 'bench.yaml'), configuration(limit))
  const [port, httpPort, debugPort] = [await freePort(), await freePort(), await freePort()]
  const child = startProgram(MEASURED, file, [], {
    env: {
      HOST: '127.0.0.1',
      PORT: String(httpPort),
      GRPC_HOST: '127.0.0.1',
      GRPC_PORT: String(port),
      DEBUG_HOST: '127.0.0.1',
      DEBUG_PORT: String(debugPort),
      RUNTIME_ROOT: directory,
      RUNTIME_WATCH_ROOT: 'false',
      REDIS_SOCKET_TYPE: isRedisOverTcp ? 'tcp' : 'unix',
      REDIS_URL: isRedisOverTcp ? `127.0.0.1:${redis.port}` : redis.socket,
      DISABLE_STATS: 'true',
      LOG_LEVEL: 'error',
    },
  })
  await listening(port)
  return Object.assign(child, { port, httpPort, redis })
}

async function startRedisOnSocket(socket) {
  const args = ['--port', '0', '--unixsocket', socket, '--save', '', '--appendonly', 'no', '--loglevel', 'warning']
  const redis = startProgram(OTHERS, findProgram('redis-server'), args)
  await listening(socket)
  return Object.assign(redis, { socket })
}

function configuration(limit) {
  return `
domain: ${DOMAIN}
descriptors:
  - key: ${DESCRIPTOR}
    rate_limit:
      unit: day
      requests_per_unit: ${limit}
`
}
