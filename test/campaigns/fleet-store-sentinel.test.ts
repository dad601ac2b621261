import { describeFleet, describeFleetByLocator, describeFleetResets } from '../contract/fleet-store.ts'
import { MASTER_NAME, runningSentinels } from '../support/redis/redis-sentinel.ts'
import type { Owner } from '../support/service/running.ts'

const sentinelsUrl = async (owner: Owner): Promise<string> =>
  `redis+sentinel://${(await runningSentinels({}, owner)).addresses.join(',')}/${MASTER_NAME}`

describeFleet('Sentinel', sentinelsUrl)
describeFleetResets('Sentinel', sentinelsUrl)
describeFleetByLocator('Sentinel', sentinelsUrl)
