import { beforeAll, describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'
import { servingOn, type Workers } from '../../support/workers/workers.ts'

const WORKERS = 4
const CONNECTIONS = 200
const FAIR = CONNECTIONS / WORKERS

// On a quiet machine it is a quarter; on a busy one workers wake when the system lets them.
describe('connections spread over the workers: none has less than half of its share, or more than twice', () => {
  const suite = thisSuite()
  let cli: Workers
  beforeAll(async () => {
    cli = await servingOn(WORKERS, bundle(1), {}, suite)
  })

  test('when they come all at once', async () => {
    for (let i = 0; i < CONNECTIONS; i++) RawClient.connect(cli.port)
    await expectFairShares(cli.port)
  })

  test('after many of them have gone', async () => {
    await until(async () => total(await connections(cli.port)) === 1) // those of the test before
    const first = Array.from({ length: CONNECTIONS }, () => RawClient.connect(cli.port))
    await until(async () => total(await connections(cli.port)) === CONNECTIONS + 1)
    for (const { socket } of first) socket.destroy()
    await until(async () => total(await connections(cli.port)) === 1)
    for (let i = 0; i < CONNECTIONS; i++) RawClient.connect(cli.port)
    await expectFairShares(cli.port)
  })
})

async function expectFairShares(port: number): Promise<void> {
  // The question itself comes on a connection too.
  await until(async () => total(await connections(port)) === CONNECTIONS + 1)
  for (const count of await connections(port)) {
    expect(count).toBeGreaterThanOrEqual(FAIR / 2)
    expect(count).toBeLessThanOrEqual(FAIR * 2)
  }
}

async function connections(port: number): Promise<readonly number[]> {
  return (await metricsOf(port)).connections
}

function total(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0)
}
