import { runningCluster } from '../support/redis/redis-cluster.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import type { Owner } from '../support/service/running.ts'
import { describeFleet, describeFleetByLocator, describeFleetResets } from './fleet-store.ts'

const serverUrl = async (owner: Owner): Promise<string> => (await runningRedis({}, owner)).url
const clusterUrl = async (owner: Owner): Promise<string> => `redis://${(await runningCluster(owner)).addresses.join(',')}`

describeFleetResets('one server', serverUrl)
describeFleetByLocator('one server', serverUrl)
describeFleet('Cluster', clusterUrl)
describeFleetResets('Cluster', clusterUrl)
describeFleetByLocator('Cluster', clusterUrl)
