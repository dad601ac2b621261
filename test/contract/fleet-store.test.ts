import { runningCluster } from '../support/redis/redis-cluster.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeFleet } from './fleet-store.ts'

// On Sentinel: test/campaigns/fleet-store-sentinel.test.ts
describeFleet('one server', async (owner) => (await runningRedis({}, owner)).url)
describeFleet('Cluster', async (owner) => `redis://${(await runningCluster(owner)).addresses.join(',')}`)
