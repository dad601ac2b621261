import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { RawClient, statusesIn } from '../../test/support/proxy/proxy.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { serverMemory } from '../../test/support/service/server-memory.ts'
import { readConfig } from '../config/config.ts'
import type { Route } from '../listen/node-http/routes.ts'
import { portOptionsOf } from '../listen/port-options.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import { AdminEndpoints, newAdminServer } from './admin-server.ts'

const SLOW: Route = {
  path: '/slow',
  methods: ['GET'],
  handle: async (_req, res) => {
    await sleep(50)
    res.end('slow')
  },
}
const SIZE: Route = {
  path: '/size',
  methods: ['POST'],
  handle: async (req, res) => {
    let bytes = 0
    for await (const chunk of req) bytes += (chunk as Buffer).length
    res.end(`${bytes} bytes`)
  },
}

test('a route reads its body, also when it had to wait for its turn', async () => {
  const client = RawClient.connect(await serving(SLOW, SIZE))
  const post = 'POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello'
  client.send(`GET /slow HTTP/1.1\r\nHost: a\r\n\r\n${post}`)
  await client.sees('5 bytes')
  expect(statusesIn(client.received)).toEqual([200, 200])
})

test('a body above 1 MiB closes the connection', async () => {
  const client = RawClient.connect(await serving(SIZE))
  client.send(`POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n${'x'.repeat(2_000_000)}`)
  expect(statusesIn(await client.closed())).toEqual([])
})

async function serving(...routes: readonly Route[]): Promise<number> {
  const read = readConfig({ EDGE_ADMIN_PORT: '1' }, {})
  if (!read.ok) throw new Error(read.problems.join())
  const parts = { clock: new ManualClock(), logger: pino({ level: 'silent' }), ...serverMemory() }
  const failures = new CounterFamily(parts.metricMemory, 'edge_admin_failures_total').series()
  const server = newAdminServer(new AdminEndpoints(routes, { ...parts, failures }), portOptionsOf(read.config, parts)('admin'))
  onTestFinished(() => server.close(0))
  return (await server.listen({ port: 0, host: '127.0.0.1' }))!.port
}
