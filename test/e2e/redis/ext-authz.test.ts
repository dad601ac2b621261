import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { authorization, check, checkFailure } from '../../support/grpc/ext-authz.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { HARDLY_ANY, sharing, twoSharing } from '../../support/redis/sharing-edge.ts'

const TEN = bundle(1, policy('p', { rules: [bucketRule('ten', ['header:x-caller'], 10, HARDLY_ANY)] }))
const GRPC = { EDGE_GRPC_PORT: '0' }

describeWithRedis('ext_authz over gRPC on Redis', () => {
  const shared = redisOfSuite()

  test.each(['exact', 'leased'])('two instances and two doors admit one limit together: %s', async (mode) => {
    const redis = shared()
    const edges = await twoSharing(redis.url, { bundle: TEN, env: { ...GRPC, EDGE_REDIS_MODE: mode } })
    const clients = edges.map(({ grpcPort }) => authorization(grpcPort))
    const request = { headers: { 'x-caller': 'alice' } }
    const checked = Array.from({ length: 20 }, async (_, i) => (await check(clients[i % 2]!, request)).status)
    const asked = Array.from({ length: 20 }, async (_, i) => (await edges[i % 2]!.decide({ fields: [['X-Caller', 'alice']] })).status)
    const statuses = await Promise.all([...checked, ...asked])
    expect(statuses.filter((status) => status === 200)).toHaveLength(10)
    expect(statuses.filter((status) => status === 429)).toHaveLength(30)
  })

  test('without Redis, and closed, the call fails with status 14', async () => {
    const redis = shared()
    const edge = await sharing(redis.url, { bundle: TEN, env: { ...GRPC, EDGE_REDIS_FAILURE_MODE: 'closed' } })
    const client = authorization(edge.grpcPort)
    await redis.stop()
    expect(await checkFailure(client, { headers: { 'x-caller': 'alice' } })).toEqual({ code: 14, details: 'store_unavailable' })
  })
})
