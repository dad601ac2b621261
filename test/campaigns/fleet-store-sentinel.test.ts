import { describeFleet } from '../contract/fleet-store.ts'
import { MASTER_NAME, runningSentinels } from '../support/redis/redis-sentinel.ts'

describeFleet('Sentinel', async (owner) => `redis+sentinel://${(await runningSentinels({}, owner)).addresses.join(',')}/${MASTER_NAME}`)
