import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { runningTls } from '../../support/redis/redis-tls.ts'
import { AMPLE_TIMEOUT, HARDLY_ANY, hasRedis } from '../../support/redis/sharing-edge.ts'
import { countersIn } from '../../support/redis/stored-counters.ts'
import { ask } from '../../support/service/http.ts'
import { until } from '../../support/until.ts'
import { servingOn } from '../../support/workers/workers.ts'

const TWO = bundle(1, policy('p', { rules: [bucketRule('two', [], 2, HARDLY_ANY)] }))

const ORIGINAL: [string, string][] = [
  ['X-Original-Method', 'GET'],
  ['X-Original-URI', '/'],
]

describeWithRedis('a Redis that speaks TLS', () => {
  test('is used where NODE_EXTRA_CA_CERTS vouches for it; a password that it does not need leaves no bare line in the log', async () => {
    const { redis, address, certificatePath } = await runningTls()
    const env = { EDGE_REDIS_URL: `rediss://:any@${address}`, ...AMPLE_TIMEOUT, NODE_EXTRA_CA_CERTS: certificatePath }
    const cli = await servingOn(1, TWO, env)
    await until(() => hasRedis(cli))
    const statuses: number[] = []
    for (let i = 0; i < 3; i++) statuses.push((await ask(cli.port, 'POST', '/v1/decision', ORIGINAL)).status)
    expect(statuses).toEqual([200, 200, 429])
    expect(await hasRedis(cli)).toBe(true)
    expect(await countersIn(redis)).toHaveLength(1)
    await cli.stop()
    expect(cli.stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{'))).toEqual([])
  })
})
