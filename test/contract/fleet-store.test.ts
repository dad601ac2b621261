import { runningRedis } from '../support/redis/redis-server.ts'
import { describeFleet } from './fleet-store.ts'

// On Cluster: fleet-store.slow.test.ts; on Sentinel: test/campaigns/fleet-store-sentinel.test.ts
describeFleet('one server', async (owner) => (await runningRedis({}, owner)).url)
