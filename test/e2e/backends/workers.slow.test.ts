import { expect, test } from 'vitest'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { hostsOf, named, routedBundle, saying } from '../../support/proxy/routed.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { servingOn } from '../../support/workers/workers.ts'

const WORKERS = 2
const REQUESTS = 200

test('several workers count every call once, and report the cooling of a backend once', async () => {
  const [a, b] = [await HttpBackend.start(saying('', 503, { 'Retry-After': '600' })), await named('b')]
  const routes = [{ backends: [{ name: 'a' }], fallback: [{ name: 'b' }], retry: { on: ['5xx'], attempts: 1 } }]
  const env = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_HOSTS: hostsOf({ a, b }) }
  const cli = await servingOn(WORKERS, routedBundle(1, { a, b }, routes), env)
  // Each on a connection of its own, so that both workers get some.
  const answers = await Promise.all(Array.from({ length: REQUESTS }, () => ask(cli.port, 'GET', '/x')))
  expect(answers.every(({ status, body }) => status === 200 && body === 'b')).toBe(true)
  const found = await metricsOf(cli.port)
  expect(found.value('edge_route_attempts_total{backend="a",outcome="5xx"}')).toBe(a.seen.length)
  expect(found.value('edge_route_retries_total{backend="a",reason="5xx"}')).toBe(a.seen.length)
  expect(found.value('edge_route_attempts_total{backend="b",outcome="2xx"}')).toBe(REQUESTS)
  expect(found.value('edge_route_cooling{backend="a"}')).toBe(1)
  expect(found.value('edge_route_coolings_total{backend="a",reason="5xx"}')).toBe(1)
  expect(await untilLogged(cli, 'backend_cooling')).toMatchObject([{ backend: 'a', reason: '5xx', retry_after: true }])
})
