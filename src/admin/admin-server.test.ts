import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { RawClient, statusesIn } from '../../test/support/proxy/proxy.ts'
import { HeldNow } from '../../test/support/service/held-now.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { serverMemory } from '../../test/support/service/server-memory.ts'
import { until } from '../../test/support/until.ts'
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

const LIVEZ: Route = { path: '/livez', methods: ['GET'], handle: (_req, res) => void res.end('alive') }

test('a route reads its body, also when it had to wait for its turn', async () => {
  const client = RawClient.connect(await serving(SLOW, SIZE))
  const post = 'POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello'
  client.send(`GET /slow HTTP/1.1\r\nHost: a\r\n\r\n${post}`)
  await client.sees('5 bytes')
  expect(statusesIn(client.received)).toEqual([200, 200])
})

test.each([
  ['announced', `Content-Length: 900000\r\n\r\n`],
  ['in chunks', `Transfer-Encoding: chunked\r\n\r\n1400\r\n${'x'.repeat(0x1400)}\r\n`],
])('a body above 4 KiB, %s, ends the connection before its rest has come', async (_how, rest) => {
  const client = RawClient.connect(await serving(SIZE))
  client.send(`POST /size HTTP/1.1\r\nHost: a\r\n${rest}`)
  const response = await client.closed()
  expect(statusesIn(response)).toEqual([413])
  expect(response).toContain('must not be larger than 4 KiB')
})

test('with credentials, it may have 1 MiB', async () => {
  const client = RawClient.connect(await serving(SIZE))
  const head = 'POST /size HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nContent-Length:'
  client.send(`${head} 60000\r\n\r\n${'x'.repeat(60_000)}`)
  await client.sees('60000 bytes')
  client.send(`${head} 2000000\r\n\r\n`)
  expect(statusesIn(await client.closed())).toEqual([200, 413])
})

test('no other request delays a probe, not even one that has used up all time', async () => {
  const port = await serving(SIZE, LIVEZ)
  const others = Array.from({ length: 5 }, () => RawClient.connect(port))
  const time = new HeldNow()
  for (const other of others) other.send('GET /size HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(200))
  const count = (): number => others.reduce((sum, { received }) => sum + statusesIn(received).length, 0)
  await until(() => count() >= 400)
  const probe = RawClient.connect(port)
  probe.send('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n')
  await probe.sees('alive')
  expect(count()).toBeLessThanOrEqual(401)
  time.letGo()
})

test('requests of other addresses do not wait behind all those of one', async () => {
  const port = await serving(SIZE)
  const crowd = Array.from({ length: 50 }, () => RawClient.connect(port))
  const time = new HeldNow()
  for (const client of crowd) client.send('GET /size HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(10))
  const count = (): number => crowd.reduce((sum, { received }) => sum + statusesIn(received).length, 0)
  await until(() => count() >= 400)
  const other = connect({ port, host: '127.0.0.1', localAddress: '127.0.9.9' })
  onTestFinished(() => void other.destroy())
  let answer = ''
  other.on('data', (chunk: Buffer) => {
    answer += chunk.toString()
  })
  other.write('GET /size HTTP/1.1\r\nHost: a\r\n\r\n')
  // It is second, and not behind fifty.
  while (answer === '' && count() < 440) {
    time.advance(1)
    await sleep(5)
  }
  expect(answer).toMatch(/^HTTP\/1.1 405 /)
  time.letGo()
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
