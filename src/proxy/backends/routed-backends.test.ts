import { createServer, type LookupFunction } from 'node:net'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { planBackends } from '../../policy/routes/planned-backend.ts'
import type { Routing } from '../../policy/routes/routing.ts'
import { BackendMetrics } from '../../telemetry/metrics/backend-metrics.ts'
import { MetricMemory, newMetricBuffer } from '../../telemetry/metrics/metric-memory.ts'
import { RouteMetrics } from '../../telemetry/metrics/route-metrics.ts'
import type { ConnectionSeeker } from '../backend/backend.ts'
import type { BackendConnection } from '../backend/backend-connection.ts'
import type { BackendFailure } from '../backend/backend-failure.ts'
import { BackendHealth } from './backend-health.ts'
import { BackendSlots, newBackendsBuffer } from './backend-slots.ts'
import { CoolingReports } from './cooling-reports.ts'
import { RoutedBackends, type UsedBackend } from './routed-backends.ts'

const TIMEOUTS = { connectTimeoutMs: 600_000, headersTimeoutMs: 600_000, idleTimeoutMs: 600_000, queueMs: 600_000 }

test('a thousand bundles with other backends leave no connections, no backends and no places behind', async () => {
  const { backends, metrics, slots, url } = await newBackends()
  const first = routingTo(url, ['a-0', 'b-0'])
  const earliest = openOne(backends, first, 'a-0')
  backends.giveUp(earliest)
  for (let i = 1; i <= 1000; i++) {
    const routing = routingTo(url, [`a-${i}`, `b-${i}`])
    backends.turnTo(routing)
    for (const name of routing.backends.keys()) backends.giveUp(openOne(backends, routing, name))
  }
  expect(metrics.connections.count).toBe(2)
  backends.turnTo(undefined)
  expect(metrics.connections.count).toBe(0)
  const taken = Array.from({ length: 64 }, (_, slot) => slots.placesOf(slot, 0).taken)
  expect(taken.reduce((sum, count) => sum + count)).toBe(0)
  const again = backends.use(first, first.backends.get('a-0')!)
  expect(again.backend).not.toBe(earliest.backend)
})

test('a backend that has lost its slot to others and comes back is counted in its new one', async () => {
  const { backends, slots, url, clock } = await newBackends()
  const first = routingTo(url, ['a'])
  backends.turnTo(first)
  const stream = openOne(backends, first, 'a')
  const others = routingTo(
    url,
    Array.from({ length: 64 }, (_, i) => `other-${i}`),
  )
  clock.advance(1)
  backends.turnTo(others)
  // The last one got the slot, and is now the most recent.
  clock.advance(1)
  backends.turnTo(routingTo(url, ['other-63']))
  const second = routingTo(url, ['a'])
  backends.turnTo(second)
  const back = openOne(backends, second, 'a')
  expect(back.backend).not.toBe(stream.backend)
  expect(slots.placesOf(backends.slotsOf(second).get('a')!, 9).taken).toBe(1)
  backends.giveUp(stream)
  expect(slots.placesOf(backends.slotsOf(first).get('a')!, 9).taken).toBe(0)
})

test.each([
  ['https://api.test', {}, '169.254.169.254', 'link-local'],
  ['https://api.test', {}, '::ffff:169.254.169.254', 'link-local'],
  ['http://api.test', {}, 'fe80::1', 'link-local'],
  ['https://api.test', {}, 'fd00:ec2::254', 'metadata'],
  ['http://api.test', {}, '168.63.129.16', 'metadata'],
  ['http://localhost', { authorization: 'Bearer {KEY}' }, '10.0.0.1', 'not a loopback address'],
])('%s with %j is not connected to if it resolves to %s', async (url, headers, address, problem) => {
  const lookup: LookupFunction = (_name, { all }, callback) =>
    process.nextTick(() => (all === true ? callback(null, [{ address, family: 4 }]) : callback(null, address, 4)))
  const { backends } = await newBackends({ lookup })
  const routing = { backends: planBackends({ a: { url, headers } }) } as unknown as Routing
  const { backend } = backends.use(routing, routing.backends.get('a')!)
  const failure = await new Promise<BackendFailure>((resolve) => {
    backend.connect({ needsFresh: true, isUpgrade: false, onGiven: () => {}, onFailure: resolve } as unknown as ConnectionSeeker)
  })
  expect([failure.code, failure.message.includes(problem)]).toEqual(['backend_refused', true])
})

/** A worker's backends before a server that accepts everything and says nothing. */
async function newBackends(more: { readonly lookup?: LookupFunction } = {}) {
  const server = createServer((socket) => void socket.on('error', () => {}))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as { port: number }
  const clock = new ManualClock()
  const slots = new BackendSlots(newBackendsBuffer(1), 1)
  const memory = new MetricMemory(newMetricBuffer(2), 1)
  const metrics = new BackendMetrics(memory)
  const routeMetrics = new RouteMetrics(memory)
  const health = new BackendHealth({ slots, clock, worker: 1, hashKey: [1, 2] })
  const parts = {
    slots,
    health,
    clock,
    secrets: { valueOf: () => '' },
    metrics,
    routeMetrics,
    reports: new CoolingReports(routeMetrics, pino({ enabled: false }), clock),
    timeouts: TIMEOUTS,
    lastResort: undefined,
    maxConnections: 128,
  }
  const backends = new RoutedBackends({ ...parts, ...more })
  onTestFinished(() => backends.close())
  return { backends, metrics, slots, clock, url: `http://127.0.0.1:${port}` }
}

function routingTo(url: string, names: readonly string[]): Routing {
  return { backends: planBackends(Object.fromEntries(names.map((name) => [name, { url }]))), routes: [] } as unknown as Routing
}

/** A call that has its connection, which is not established yet. */
function openOne(backends: RoutedBackends, routing: Routing, name: string): UsedBackend {
  const used = backends.use(routing, routing.backends.get(name)!)
  const call = { needsFresh: true, isUpgrade: false, isSent: false, onGiven: (_: BackendConnection) => {} }
  used.backend.connect(call as unknown as ConnectionSeeker)
  return used
}
