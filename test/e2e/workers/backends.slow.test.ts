import { expect, test } from 'vitest'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { hostsOf, named, routedBundle, saying } from '../../support/proxy/routed.ts'
import type { Cli } from '../../support/service/cli.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { until, untilStill } from '../../support/until.ts'
import { Crowd } from '../../support/workers/crowd.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'
import { servingOn } from '../../support/workers/workers.ts'

const WORKERS = 3
const ROUTE = { backends: [{ name: 'a' }], fallback: [{ name: 'b' }] }
const PROXY = { EDGE_MODE: 'reverse_proxy', EDGE_SHUTDOWN_MS: '0', EDGE_ADMIN_PORT: '0' }

test('a backend that has failed in one worker cools in all', async () => {
  const a = await HttpBackend.start(saying('a', 503, { 'Content-Length': '1', 'Retry-After': '600' }))
  const b = await HttpBackend.start(saying('b', 200, { 'Content-Length': '1' }))
  const cli = await servingOn(WORKERS, routedBundle(1, { a, b }, [ROUTE]), { ...PROXY, EDGE_BACKEND_HOSTS: hostsOf({ a, b }) })
  const crowd = await Crowd.gather(cli.port, adminPort(cli))
  const [first] = crowd.clients
  for (let i = 0; i < 3; i++) {
    first!.send('GET /x HTTP/1.1\r\nHost: a\r\n\r\n')
    expect((await first!.next()).body).toBe('a')
  }
  const answers = await crowd.ask('GET /x HTTP/1.1\r\nHost: a\r\n\r\n')
  expect(answers.map(({ body }) => body)).toEqual(Array(crowd.size).fill('b'))
  expect(a.seen.length).toBe(3)
})

test('the connections of a backend are shared by all workers, and one that hangs leaves those of another alone', async () => {
  const a = await HttpBackend.start(() => {})
  const b = await HttpBackend.start(saying('b', 200, { 'Content-Length': '1' }))
  const routes = [{ selector: { pathPrefix: '/a' }, backends: [{ name: 'a' }] }, { backends: [{ name: 'b' }] }]
  const env = { ...PROXY, EDGE_BACKEND_HOSTS: hostsOf({ a, b }), EDGE_BACKEND_MAX_CONNECTIONS: '6', EDGE_BACKEND_QUEUE_MS: '600000' }
  const cli = await servingOn(WORKERS, routedBundle(1, { a, b }, routes), env)
  const admin = adminPort(cli)
  const hanging = await Crowd.gather(cli.port, admin)
  for (const client of hanging.clients) client.send('GET /a HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(async () => (await metricsOf(admin)).value('edge_backend_queue_requests') === hanging.size - 3)
  for (let i = 0; i < 20; i++) expect(await (await fetch(`http://127.0.0.1:${cli.port}/b`)).text()).toBe('b')
  await untilStill(() => a.openConnections)
  expect(a.openConnections).toBe(3)
})

test('a worker that was replaced keeps its connections to backends, like the one before', async () => {
  const a = await named('a')
  const env = { ...PROXY, EDGE_BACKEND_HOSTS: hostsOf({ a }) }
  const mortal = await mortalEdge(1, { bundle: routedBundle(1, { a }, [{ backends: [{ name: 'a' }] }]), env })
  const ask = async () => (await fetch(`http://127.0.0.1:${mortal.port}/x`)).text()
  expect([await ask(), await ask()]).toEqual(['a', 'a'])
  mortal.age()
  await mortal.host.terminate(1)
  await mortal.untilReplaced()
  await until(() =>
    ask().then(
      () => true,
      () => false,
    ),
  )
  const before = a.seen.length
  await ask()
  await ask()
  const connections = a.seen.slice(before - 1).map(({ connection }) => connection)
  expect(new Set(connections).size).toBe(1)
})

function adminPort(cli: Cli): number {
  return Number(/admin\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(cli.stdout)![1])
}
