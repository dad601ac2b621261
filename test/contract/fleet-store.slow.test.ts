import { runningCluster } from '../support/redis/redis-cluster.ts'
import { describeFleet } from './fleet-store.ts'

describeFleet('Cluster', async (owner) => `redis://${(await runningCluster(owner)).addresses.join(',')}`)
