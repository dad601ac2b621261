import { describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { health, healthClient, watching } from '../../support/grpc/health.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const GRPC = { EDGE_GRPC_PORT: '0' }
/** The port opens without a bundle. */
const WITHOUT_BUNDLE = { ...GRPC, EDGE_READY_TIMEOUT: '0' }

const SERVICES = ['', 'envoy.service.auth.v3.Authorization', 'envoy.service.ratelimit.v3.RateLimitService', 'grpc.health.v1.Health']

describe('Check', () => {
  test.each(SERVICES)('says that %j is served', async (service) => {
    const edge = await running({ bundle: bundle(1), env: GRPC })
    expect(await health(healthClient(edge.grpcPort), service)).toBe('SERVING')
  })

  test('of an unknown service fails with status 5', async () => {
    const edge = await running({ bundle: bundle(1), env: GRPC })
    const client = healthClient(edge.grpcPort)
    expect(await health(client, 'envoy.service.auth.v2.Authorization')).toBe(5)
    expect(await health(client, 'x'.repeat(100_000))).toBe(5)
  })

  test('agrees with /readyz, with and without a bundle', async () => {
    const edge = await running({ env: WITHOUT_BUNDLE })
    const client = healthClient(edge.grpcPort)
    expect([await health(client), (await edge.get('/readyz')).status]).toEqual(['NOT_SERVING', 503])
    await edge.publish(bundle(1))
    expect([await health(client), (await edge.get('/readyz')).status]).toEqual(['SERVING', 200])
  })
})

describe('Watch', () => {
  test('tells the status at once, each change, and ends at shutdown', async () => {
    const edge = await running({ env: WITHOUT_BUNDLE })
    const client = healthClient(edge.grpcPort)
    const watches = [await watching(client), await watching(client, 'envoy.service.auth.v3.Authorization')]
    for (const { statuses } of watches) expect(statuses).toEqual(['NOT_SERVING'])
    await edge.publish(bundle(1))
    await until(() => watches.every(({ statuses }) => statuses.length === 2))
    await edge.publish(bundle(2))
    const late = await watching(client)
    await edge.stop()
    await until(() => [...watches, late].every(({ endedWith }) => endedWith !== undefined))
    for (const { statuses } of watches) expect(statuses).toEqual(['NOT_SERVING', 'SERVING', 'NOT_SERVING'])
    expect(late.statuses).toEqual(['SERVING', 'NOT_SERVING'])
    expect(late.endedWith).toBe(14)
  })

  test('of an unknown service says so and stays open', async () => {
    const edge = await running({ env: WITHOUT_BUNDLE })
    const client = healthClient(edge.grpcPort)
    const [unknown, known] = [await watching(client, 'unknown'), await watching(client)]
    await edge.publish(bundle(1))
    await until(() => known.statuses.length === 2)
    expect(unknown).toMatchObject({ statuses: ['SERVICE_UNKNOWN'], endedWith: undefined })
  })
})
