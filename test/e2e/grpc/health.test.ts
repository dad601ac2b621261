import { describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { health, healthClient, watching } from '../../support/grpc/health.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const SERVICES = ['', 'envoy.service.auth.v3.Authorization', 'envoy.service.ratelimit.v3.RateLimitService', 'grpc.health.v1.Health']

const env = { EDGE_GRPC_PORT: '0' }

describe('Check', () => {
  test('knows its services by name; of any other it fails with status 5', async () => {
    const edge = await running({ bundle: bundle(1), env })
    const client = healthClient(edge.grpcPort)
    for (const service of SERVICES) expect(await health(client, service)).toBe('SERVING')
    expect(await health(client, 'envoy.service.auth.v2.Authorization')).toBe(5)
    expect(await health(client, 'x'.repeat(100_000))).toBe(5)
  })

  test('agrees with /readyz, with and without a bundle', async () => {
    const edge = await running({ env })
    const client = healthClient(edge.grpcPort)
    expect([await health(client), (await edge.get('/readyz')).status]).toEqual(['NOT_SERVING', 503])
    await edge.publish(bundle(1))
    expect([await health(client), (await edge.get('/readyz')).status]).toEqual(['SERVING', 200])
  })
})

describe('Watch', () => {
  test('tells the status at once, each change, and ends at shutdown', async () => {
    const edge = await running({ env })
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
    const edge = await running({ env })
    const client = healthClient(edge.grpcPort)
    const [unknown, known] = [await watching(client, 'unknown'), await watching(client)]
    await edge.publish(bundle(1))
    await until(() => known.statuses.length === 2)
    expect(unknown).toMatchObject({ statuses: ['SERVICE_UNKNOWN'], endedWith: undefined })
  })
})
