import { beforeAll } from 'vitest'
import { ADMIN_ENV } from '../admin/admin-client.ts'
import { type RedisServer, runningRedis } from '../redis/redis-server.ts'
import { sharing } from '../redis/sharing-edge.ts'
import type { Edge } from '../service/edge.ts'
import type { Environment, Owner } from '../service/running.ts'
import { thisSuite } from '../service/suite-owner.ts'

interface OperatedFleet {
  readonly prefix: string
  instance(env?: Environment, url?: string): Promise<Edge>
}

/** Fleets with an admin API, on one Redis for all tests of a `describe`. Returns what makes one, with keys of its own. */
export function operatedFleets(rules: object, onStarted: (redis: RedisServer) => void): (owner: Owner) => OperatedFleet {
  const suite = thisSuite()
  let redis: RedisServer
  let fleets = 0
  beforeAll(async () => {
    redis = await runningRedis({}, suite)
    onStarted(redis)
  })
  return (owner) => {
    const prefix = `edge${fleets++}:`
    return {
      prefix,
      instance: (env = {}, url = redis.url) =>
        sharing(url, { bundle: rules, env: { ...ADMIN_ENV, EDGE_REDIS_PREFIX: prefix, ...env } }, owner),
    }
  }
}
