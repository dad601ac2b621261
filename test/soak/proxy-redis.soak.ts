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
      make: (trouble, round) => troubleRedis(trouble, redis, gate, round),
    })
  }),
)
