import { runningCluster } from '../support/redis/redis-cluster.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import type { Owner } from '../support/service/running.ts'
import { describeFleet, describeFleetByPlace } from './fleet-store.ts'

const clusterUrl = async (owner: Owner): Promise<string> => `redis://${(await runningCluster(owner)).addresses.join(',')}`

describeFleetByPlace('one server', async (owner) => (await runningRedis({}, owner)).url)
describeFleet('Cluster', clusterUrl)
describeFleetByPlace('Cluster', clusterUrl)
