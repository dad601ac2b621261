import { expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf } from '../support/admin/admin-client.ts'
import { EventClient } from '../support/admin/event-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { ask } from '../support/service/http.ts'
import { metricsOf } from '../support/service/metrics.ts'
import { original } from '../support/service/wire.ts'
import { until } from '../support/until.ts'
import { mortalEdge } from '../support/workers/mortal-edge.ts'
import { servingOn } from '../support/workers/workers.ts'

const REJECTING = bundle(1, policy('api', { rules: [bucketRule('per-key', ['header:x-api-key'], 1, 0.001)] }))

/** Asks on new connections, which come to all workers, until the condition holds. */
async function asking(port: number, isEnough: () => boolean): Promise<void> {
  const fields = original('/x', ['X-Api-Key', 'alice'])
  while (!isEnough()) await Promise.all(Array.from({ length: 16 }, () => ask(port, 'POST', '/v1/decision', fields)))
}

/** Readers until there is one at each of two workers. */
async function readersOnBoth(adminPort: number): Promise<EventClient[]> {
  const clients: EventClient[] = []
  do clients.push(await EventClient.open(adminPort))
  while (
    // One may be that of the question itself.
    Math.min(...(await metricsOf(adminPort)).connections) < 2
  )
  return clients
}

function rejectTimes(client: EventClient): number[] {
  return client.named('reject').map(({ data }) => Date.parse(String(data['time'])))
}

/** Lines of two workers may change places. */
function sorted(lines: readonly object[]): string[] {
  return lines.map((line) => JSON.stringify(line)).sort()
}

test('events of all workers come to readers at any of them, and end with the service', async () => {
  const cli = await servingOn(2, REJECTING, ADMIN_ENV)
  const clients = await readersOnBoth(adminPortOf(cli))
  // A worker tells of a rule once a second: two within less are of two workers.
  await asking(cli.port, () => clients.every((client) => rejectTimes(client).some((ms, i, all) => i > 0 && ms - all[i - 1]! < 900)))
  await until(() => clients.every((client) => client.named('reject').length === cli.logged('reject').length))
  expect(await cli.stop()).toBe(0)
  await until(() => clients.every(({ isClosed }) => isClosed))
  for (const client of clients) {
    expect(client.res.complete).toBe(true)
    expect(sorted(client.named('reject').map(({ data }) => data))).toEqual(sorted(cli.logged('reject')))
    expect(client.events.at(-1)).toMatchObject({ name: 'stopping', data: { reason: 'SIGTERM' } })
  }
})

test('a worker that hangs or dies takes its own readers with it, and the others are told', async () => {
  const { edge, host } = await mortalEdge(2, { bundle: REJECTING, env: ADMIN_ENV })
  const clients = await readersOnBoth(edge.adminPort)
  await host.end(1, 'hang')
  await edge.publish('{') // refused before any worker hears of it
  await until(() => clients.some((client) => client.named('bundle_refused').length > 0))
  await host.terminate(1)
  await until(() => clients.every((client) => client.isClosed || client.named('worker_replaced').length > 0))
  const left = clients.filter(({ isClosed }) => !isClosed)
  expect([left.length > 0, left.length < clients.length]).toEqual([true, true])
  for (const client of left) expect(client.named('worker_died')[0]!.data).toMatchObject({ worker: 1, cause: 'exit' })
  const again = await readersOnBoth(edge.adminPort)
  await edge.publish(bundle(2))
  for (const client of [...left, ...again]) await client.untilNamed('bundle_applied')
})
