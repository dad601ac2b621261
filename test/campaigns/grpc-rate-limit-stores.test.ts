import { expect, test } from 'vitest'
import { bucketRule, bundle, policy, windowRule } from '../support/bundles/bundles.ts'
import type { JsClient } from '../support/grpc/js-client.ts'
import { type AskedDescriptor, limitFailure, rateLimitService, shouldRateLimit } from '../support/grpc/rate-limit.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { HARDLY_ANY, sharing, twoSharing } from '../support/redis/sharing-edge.ts'
import { servingOn } from '../support/workers/workers.ts'

const GRPC = { EDGE_GRPC_PORT: '0' }
const UNAVAILABLE = 14
const LIMIT = 10
const RULES = [
  bucketRule('bucket', ['descriptor:user'], LIMIT, HARDLY_ANY),
  windowRule('window', ['descriptor:plan'], { limit: LIMIT, period: '1y' }),
  windowRule('tokens', ['descriptor:key'], { limit: LIMIT, period: '1y', when_over: 'charge' }),
]
const BUNDLE = bundle(1, policy('p', { selector: { domain: 'd' }, rules: RULES }))

/** So many calls in turn from these clients; how many were allowed. */
async function admitted(clients: readonly JsClient[], times: number, ...descriptors: (string | AskedDescriptor)[]): Promise<number> {
  const asked = Array.from({ length: times }, (_, i) => shouldRateLimit(clients[i % clients.length]!, descriptors))
  return (await Promise.all(asked)).filter(({ overall }) => overall === 'OK').length
}

test('a limit is one limit over all workers', async () => {
  const cli = await servingOn(2, BUNDLE, GRPC)
  const port = Number(/gRPC\s+\S*?:(\d+)/.exec(cli.stdout)![1])
  const clients = Array.from({ length: 8 }, () => rateLimitService(port))
  expect(await admitted(clients, 40, 'user=a')).toBe(LIMIT)
  expect(await admitted(clients, 40, 'plan=a', 'user=b')).toBe(LIMIT)
})

describeWithRedis('on Redis', () => {
  for (const mode of ['exact', 'leased']) {
    test(`a limit is one limit over a fleet, ${mode}`, async () => {
      const redis = await runningRedis()
      const edges = await twoSharing(redis.url, { bundle: BUNDLE, env: { ...GRPC, EDGE_REDIS_MODE: mode } })
      const clients = edges.map((edge) => rateLimitService(edge.grpcPort))
      expect(await admitted(clients, 40, 'user=a')).toBe(LIMIT)
      // All or nothing: the window takes nothing where the bucket rejects.
      expect(await admitted(clients, 5, 'plan=a', 'user=a')).toBe(0)
      expect(await admitted(clients, 40, 'plan=a')).toBe(LIMIT)
      expect(await admitted(clients, 4, { entries: 'user=b', hits: 3 }, { entries: 'user=b', hits: 0 })).toBe(3)
      expect(await admitted(clients, 1, { entries: 'user=b', hits: 0 })).toBe(1)
    })
  }

  test('tokens are charged after the fact, in debt too, and given back', async () => {
    const redis = await runningRedis()
    const edge = await sharing(redis.url, { bundle: BUNDLE, env: GRPC })
    const client = rateLimitService(edge.grpcPort)
    const ask = async (hits: number, isNegative = false) =>
      (await shouldRateLimit(client, [{ entries: 'key=k', hits, isNegative }])).statuses[0]!.split(' ').slice(0, 4).join(' ')
    expect(await ask(0)).toBe('OK tokens 10/YEAR 10')
    expect(await ask(25)).toBe('OK tokens 10/YEAR 0')
    expect(await ask(0)).toBe('OVER_LIMIT tokens 10/YEAR 0')
    expect(await ask(5)).toBe('OVER_LIMIT tokens 10/YEAR 0')
    expect(await ask(20, true)).toBe('OK tokens 10/YEAR 0')
    expect(await ask(0)).toBe('OVER_LIMIT tokens 10/YEAR 0')
    expect(await ask(3, true)).toBe('OK tokens 10/YEAR 3')
    expect(await ask(0)).toBe('OK tokens 10/YEAR 3')
  })

  test('tokens that are charged at one instance are missing at all', async () => {
    const redis = await runningRedis()
    const edges = await twoSharing(redis.url, { bundle: BUNDLE, env: GRPC })
    const [one, two] = edges.map((edge) => rateLimitService(edge.grpcPort)) as [JsClient, JsClient]
    const question = { entries: 'key=k', hits: 0 }
    expect([await admitted([one], 1, { entries: 'key=k', hits: 30 }), await admitted([two], 1, question)]).toEqual([1, 0])
    // In debt, it is charged there too: 25 given back are not enough.
    expect(await admitted([two], 1, { entries: 'key=k', hits: 6 })).toBe(0)
    expect(await admitted([one], 1, { entries: 'key=k', hits: 25, isNegative: true })).toBe(1)
    expect(await admitted([two], 1, question)).toBe(0)
  })

  for (const mode of ['exact', 'leased']) {
    test(`hits that are given back at another instance can be taken again where they were taken, ${mode}`, async () => {
      const redis = await runningRedis()
      const edges = await twoSharing(redis.url, { bundle: BUNDLE, env: { ...GRPC, EDGE_REDIS_MODE: mode } })
      const [one, two] = edges.map((edge) => rateLimitService(edge.grpcPort)) as [JsClient, JsClient]
      for (const entries of ['user=a', 'plan=a', 'key=a']) {
        for (let i = 0; i < 4; i++) {
          expect([entries, await admitted([one], 1, { entries, hits: LIMIT })]).toEqual([entries, 1])
          expect(await admitted([two], 1, { entries, hits: 0 })).toBe(0)
          expect(await admitted([two], 1, { entries, hits: LIMIT, isNegative: true })).toBe(1)
        }
        expect(await admitted([one], 1, { entries, hits: 3 }, { entries, hits: LIMIT - 3 })).toBe(1)
      }
    })
  }

  test('without Redis, closed fails with status 14 so that the gateway decides, open allows, and local goes on', async () => {
    const redis = await runningRedis()
    const [closed, open, local] = await Promise.all(
      ['closed', 'open', 'local'].map(async (mode) => {
        const edge = await sharing(redis.url, { bundle: BUNDLE, env: { ...GRPC, EDGE_REDIS_FAILURE_MODE: mode } })
        return rateLimitService(edge.grpcPort)
      }),
    )
    for (const client of [closed!, open!, local!]) expect(await admitted([client], 1, 'user=a')).toBe(1)
    await redis.stop()
    expect(await limitFailure(closed!, ['user=a'])).toEqual({ code: UNAVAILABLE, details: 'store_unavailable' })
    expect(await limitFailure(closed!, [{ entries: 'user=a', hits: 1, isNegative: true }])).toMatchObject({ code: UNAVAILABLE })
    expect(await admitted([open!], 30, 'user=a')).toBe(30)
    expect(await admitted([local!], 30, 'user=a')).toBe(LIMIT - 1)
  })
})
