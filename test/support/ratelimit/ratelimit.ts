import { spawnSync } from 'node:child_process'
import { accessSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { runningGateway } from '../gateways/gateway-process.ts'
import { runningRedis } from '../redis/redis-server.ts'
import { scratchDirectory } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'
import { testPart, versionOf } from '../test-part.ts'

const PROGRAM = testPart('ratelimit')
const GO = spawnSync('go', ['env', 'GOMODCACHE'], {
  env: { ...process.env, PATH: `${process.env['PATH']}${delimiter}/usr/local/go/bin` },
  encoding: 'utf8',
})

/** The sources of envoyproxy/ratelimit. */
export const SOURCES = join((GO.stdout ?? '').trim() || '/nowhere', 'github.com/envoyproxy', `ratelimit@${versionOf('ratelimit')}`)

/** What is not installed, and how it is. */
export function ratelimitMissing(): string | undefined {
  try {
    accessSync(SOURCES)
    accessSync(PROGRAM)
    if (spawnSync('redis-server', ['--version']).status === 0) return undefined
  } catch {
    // One of the two is missing.
  }
  return 'envoyproxy/ratelimit, or the Redis that it needs, is not installed: sh scripts/install-test-parts.sh'
}

/** The real one with these configurations and a Redis of its own, for as long as the test runs. Returns its port. */
export async function runningRatelimit(configurations: readonly string[]): Promise<number> {
  const [directory, redis] = [await scratchDirectory(), await runningRedis()]
  await mkdir(join(directory, 'config'))
  for (const [i, text] of configurations.entries()) await writeFile(join(directory, 'config', `${i}.yaml`), text)
  const [port, httpPort, debugPort] = [await serverPort(), await serverPort(), await serverPort()]
  const env = {
    HOST: '127.0.0.1',
    PORT: String(httpPort),
    GRPC_HOST: '127.0.0.1',
    GRPC_PORT: String(port),
    DEBUG_HOST: '127.0.0.1',
    DEBUG_PORT: String(debugPort),
    RUNTIME_ROOT: directory,
    RUNTIME_WATCH_ROOT: 'false',
    REDIS_SOCKET_TYPE: 'tcp',
    REDIS_URL: `127.0.0.1:${redis.port}`,
    DISABLE_STATS: 'true',
    LOG_LEVEL: 'error',
  }
  return runningGateway({ program: PROGRAM, args: [], directory, port, env })
}
