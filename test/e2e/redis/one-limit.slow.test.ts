import { expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { runningFleet } from '../../support/fleet/fleet.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { AMPLE_TIMEOUT, HARDLY_ANY, hasRedis } from '../../support/redis/sharing-edge.ts'
import { Load } from '../../support/service/load.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

describeWithRedis('one limit for several processes', () => {
  test('two processes of two workers each admit it together', async () => {
    const redis = await runningRedis()
    const rules = [bucketRule('hundred', [], 100, HARDLY_ANY)]
    const env = { EDGE_REDIS_URL: redis.url, ...AMPLE_TIMEOUT, EDGE_WORKERS: '2' }
    const fleet = await runningFleet({ size: 2, bundle: bundle(1, policy('p', { rules })), env })
    for (const instance of fleet.instances) await until(() => hasRedis(instance))
    const loads = fleet.instances.map(({ port }) => new Load(port, original('/'), 16))
    onTestFinished(async () => void (await Promise.all(loads.map((load) => load.stop()))))
    await until(() => loads.every((load) => load.count(429) > 100))
    await Promise.all(loads.map((load) => load.stop()))

    expect(loads.reduce((sum, load) => sum + load.count(200), 0)).toBe(100)
    expect(loads.map((load) => [load.total - load.count(200) - load.count(429), load.errors])).toEqual([
      [0, []],
      [0, []],
    ])
  })
})
