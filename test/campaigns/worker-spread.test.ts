import { beforeAll, describe, expect, test } from 'vitest'
import { bundle } from '../support/bundles/bundles.ts'
import { RawClient } from '../support/proxy/proxy.ts'
import { metricsOf } from '../support/service/metrics.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { until } from '../support/until.ts'
import { servingOn, type Workers } from '../support/workers/workers.ts'

const WORKERS = 4
const CONNECTIONS = 200
const FAIR = CONNECTIONS / WORKERS

const WAVES = 20

/**
 * A busy system wakes the workers as it likes, so that one wave says little. Left alone, the one that is woken first takes nearly all of
 * each. How a worker makes way for the others: src/listen/connection-slots-shares.test.ts.
 */
describe('connections spread over the workers: in some wave of many none has less than half of its share, or more than twice', () => {
  const suite = thisSuite()
  let cli: Workers
  beforeAll(async () => {
    cli = await servingOn(WORKERS, bundle(1), {}, suite)
  })

  test.each([
    ['when they come all at once', false],
    ['after many of them have gone', true],
  ])('%s', async (_, hasOlder) => {
    const seen: (readonly number[])[] = []
    for (let wave = 0; wave < WAVES && !seen.some(isFair); wave++) {
      if (hasOlder) await goAgain(await arrive(cli.port), cli.port)
      const clients = await arrive(cli.port)
      seen.push(await connections(cli.port))
      await goAgain(clients, cli.port)
    }
    expect(seen).toContainEqual(expect.toSatisfy(isFair))
  })
})

/** The question itself comes on a connection too. */
async function arrive(port: number): Promise<RawClient[]> {
  const clients = Array.from({ length: CONNECTIONS }, () => RawClient.connect(port))
  await until(async () => total(await connections(port)) === CONNECTIONS + 1)
  return clients
}

async function goAgain(clients: readonly RawClient[], port: number): Promise<void> {
  for (const { socket } of clients) socket.destroy()
  await until(async () => total(await connections(port)) === 1)
}

function isFair(counts: readonly number[]): boolean {
  return counts.every((count) => count >= FAIR / 2 && count <= FAIR * 2)
}

async function connections(port: number): Promise<readonly number[]> {
  return (await metricsOf(port)).connections
}

function total(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0)
}
