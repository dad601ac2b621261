import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { gateTo } from '../support/redis/tcp-gate.ts'
import { proxyScenario } from './proxy-scenario.ts'
import { REDIS_TIMEOUT_MS, REDIS_TROUBLES, troubleRedis } from './redis-trouble.ts'
import { soak } from './scenario.ts'

const NAME = 'proxy-redis'

describeWithRedis(NAME, () =>
  soak(NAME, async (bench) => {
    const redis = await runningRedis({}, bench)
    const gate = await gateTo(redis.port, bench)
    return proxyScenario(bench, {
      env: { EDGE_REDIS_URL: `redis://${gate.address}`, EDGE_REDIS_TIMEOUT_MS: String(REDIS_TIMEOUT_MS) },
      names: REDIS_TROUBLES,
      // A known fault. A take brings along what is left by the instance's own count, and Redis lowers the level to that. Where another worker
      // settles at the same time, the two reach Redis in any order: the take undoes what was given back, or an extra charge is made twice.
      mayOvercharge: true,
      make: (trouble, round) => troubleRedis(trouble, redis, gate, round),
    })
  }),
)
