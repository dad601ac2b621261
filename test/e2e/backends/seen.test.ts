import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV } from '../../support/admin/admin-client.ts'
import { EventClient } from '../../support/admin/event-client.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { hostsOf, named, routedBundle, routing, saying } from '../../support/proxy/routed.ts'
import { linesOf } from '../../support/service/decision-log-file.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { metric, metricsOf } from '../../support/service/metrics.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const NOWHERE = { url: 'http://127.0.0.1:1' }
const RETRY = { on: ['connect', 'timeout', 429, '5xx'], attempts: 3 }
const route = (group: string, fallback: readonly string[] = [], more: object = {}): Record<string, unknown> => ({
  backends: [{ name: group }],
  ...(fallback.length > 0 && { fallback: fallback.map((name) => ({ name })) }),
  retry: RETRY,
  ...more,
})
const chat = (model: string): RequestInit => ({
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ model, messages: [] }),
})
const at = (edge: Edge, path = '/x'): string => `http://127.0.0.1:${edge.port}${path}`

describe('metrics of routes', () => {
  test('every call is counted once by its outcome, and every one that was left by its reason', async () => {
    const broken = await HttpBackend.start((_req, res) => void res.destroy())
    const [busy, failing, b] = [await HttpBackend.start(saying('', 429)), await HttpBackend.start(saying('', 503)), await named('b')]
    const backends = { gone: NOWHERE, broken, busy, failing, b }
    const routes = [
      { selector: { pathPrefix: '/plain' }, ...route('b') },
      { selector: { pathPrefix: '/missing' }, ...route('failing') },
      { selector: { pathPrefix: '/one' }, ...route('broken', ['busy', 'b']) },
      route('gone', ['failing', 'b']),
    ]
    const edge = await routing(backends, routes)
    for (const path of ['/plain', '/missing', '/one', '/x']) await (await fetch(at(edge, path))).text()
    const found = await metricsOf(edge.port)
    const calls = (backend: string, outcome: string) => found.value(`edge_route_attempts_total{backend="${backend}",outcome="${outcome}"}`)
    expect([calls('b', '2xx'), calls('failing', '5xx'), calls('broken', 'broken'), calls('busy', '429')]).toEqual([3, 2, 1, 1])
    expect(calls('gone', 'connect')).toBe(1)
    expect(found.sum('edge_route_attempts_total')).toBe(8)
    const left = (backend: string, reason: string) => found.value(`edge_route_retries_total{backend="${backend}",reason="${reason}"}`)
    expect([left('gone', 'connect'), left('failing', '5xx'), left('broken', 'broken'), left('busy', '429')]).toEqual([1, 1, 1, 1])
    expect(found.sum('edge_route_retries_total')).toBe(4)
    expect(found.value('edge_route_response_seconds_count{backend="b"}')).toBe(3)
    expect(found.value('edge_route_response_seconds_count{backend="gone"}')).toBe(0)
    expect(found.value('edge_route_connections{backend="b"}')).toBe(1)
  })

  test('a client that leaves before the answer, and a backend that is silent, are outcomes too', async () => {
    const silent = await HttpBackend.start(() => {})
    const b = await named('b')
    const routes = [{ selector: { pathPrefix: '/slow' }, ...route('slow') }, route('silent', ['b'])]
    const more = { silent: { headers_timeout_seconds: 0.2 } }
    const edge = await routing({ silent, slow: silent, b }, routes, { more })
    expect(await (await fetch(at(edge))).text()).toBe('b')
    expect(await edge.metric('edge_route_attempts_total{backend="silent",outcome="timeout"}')).toBe(1)
    const client = RawClient.connect(edge.port)
    client.send('GET /slow HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => silent.seen.length === 2)
    client.socket.destroy()
    await until(async () => (await edge.metric('edge_route_attempts_total{backend="slow",outcome="client_gone"}')) === 1)
    expect((await metricsOf(edge.port)).sum('edge_route_attempts_total', '"slow"')).toBe(1)
  })

  test('requests that wait for a connection are in the queue of their backend', async () => {
    const slow = await HttpBackend.start((req, res) => void (req.url === '/held' || res.end('slow')))
    const b = await named('b')
    const edge = await routing({ slow, b }, [route('slow', ['b'])], { env: { EDGE_BACKEND_MAX_CONNECTIONS: '2' } })
    const first = RawClient.connect(edge.port)
    first.send('GET /held HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => slow.seen.length === 1)
    const second = fetch(at(edge))
    await until(async () => (await edge.metric('edge_route_queue{backend="slow"}')) === 1)
    expect(await edge.metric('edge_route_queue{backend="b"}')).toBe(0)
    first.socket.destroy()
    expect(await (await second).text()).toBe('slow')
    expect(await edge.metric('edge_route_queue{backend="slow"}')).toBe(0)
  })

  test('a request for which no connection becomes free in time is busy, and goes on', async () => {
    const slow = await HttpBackend.start(() => {})
    const b = await named('b')
    const limits = { EDGE_BACKEND_MAX_CONNECTIONS: '2', EDGE_BACKEND_QUEUE_MS: '400' }
    const edge = await routing({ slow, b }, [route('slow', ['b'])], { env: limits })
    const first = RawClient.connect(edge.port)
    first.send('GET /x HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => slow.seen.length === 1)
    const second = fetch(at(edge))
    expect(await (await second).text()).toBe('b')
    expect(await edge.metric('edge_route_attempts_total{backend="slow",outcome="busy"}')).toBe(1)
    expect(await edge.metric('edge_route_connections{backend="slow"}')).toBe(1)
    first.socket.destroy()
  })
})

describe('cooling', () => {
  test('is counted, logged and published once when it begins and once when it ends, whatever number of requests sees it', async () => {
    let isDown = true
    const a = await HttpBackend.start((_req, res) => void res.writeHead(isDown ? 503 : 200).end('a'))
    const b = await named('b')
    const clock = new ManualClock()
    const edge = await routing({ a, b }, [route('a', ['b'])], { env: ADMIN_ENV, clock })
    const client = await EventClient.open(edge.adminPort)
    const cooling = () => metric(edge.adminPort, 'edge_route_cooling{backend="a"}')
    expect(await cooling()).toBe(0)
    await Promise.all(Array.from({ length: 20 }, () => fetch(at(edge)).then((response) => response.text())))
    expect(await cooling()).toBe(1)
    expect(await metric(edge.adminPort, 'edge_route_coolings_total{backend="a",reason="5xx"}')).toBe(1)
    isDown = false
    clock.advance(2000)
    for (let i = 0; i < 3; i++) expect(await (await fetch(at(edge))).text()).toBe('a')
    expect(await cooling()).toBe(0)
    const [began] = await client.untilNamed('backend_cooling')
    expect(began!.data).toMatchObject({ backend: 'a', reason: '5xx', retry_after: false, until: expect.stringMatching(/^\d{4}-.*Z$/) })
    expect(began!.data).not.toHaveProperty('model')
    expect((await client.untilNamed('backend_recovered'))[0]!.data).toMatchObject({ backend: 'a' })
    expect([edge.logged('backend_cooling').length, edge.logged('backend_recovered').length]).toEqual([1, 1])
  })

  test('of a model names the model, for as long as the provider asks', async () => {
    let isDown = true
    const a = await HttpBackend.start(async (_req, res, { body }) => {
      const isBusy = isDown && String(await body()).includes('"big"')
      res.writeHead(isBusy ? 429 : 200, isBusy ? { 'Retry-After': '300' } : {}).end('a')
    })
    const b = await named('b')
    const routes = [{ match: { 'llm:model': '*' }, ...route('a', ['b']) }]
    const more = { a: { headers: { authorization: 'Bearer {A}' } } }
    const clock = new ManualClock()
    const edge = await routing({ a, b }, routes, { more, env: { EDGE_SECRET_A: 'canary-1' }, clock })
    const asked = async (model: string) => (await fetch(at(edge, '/v1/chat/completions'), chat(model))).text()
    for (const model of ['big', 'small', 'big']) await asked(model)
    const until = new Date(clock.wallMs() + 300_000).toISOString()
    expect(await untilLogged(edge, 'backend_cooling')).toMatchObject([
      { backend: 'a', model: 'big', reason: '429', retry_after: true, until },
    ])
    expect(await edge.metric('edge_route_cooling{backend="a"}')).toBe(0)
    expect(await edge.metric('edge_route_cooling_models{backend="a"}')).toBe(1)
    expect(await edge.metric('edge_route_coolings_total{backend="a",reason="429"}')).toBe(1)
    isDown = false
    clock.advance(300_001)
    expect(await asked('big')).toBe('a')
    expect(await untilLogged(edge, 'backend_recovered')).toMatchObject([{ backend: 'a', model: 'big' }])
    expect(await edge.metric('edge_route_cooling_models{backend="a"}')).toBe(0)
    expect(JSON.stringify(edge.log)).not.toContain('canary-1')
  })

  test('of invented models is logged ten times a minute, and the next line says how many were left out', async () => {
    const a = await HttpBackend.start(saying('', 403))
    const b = await named('b')
    const more = { a: { headers: { authorization: 'Bearer {A}' } } }
    const clock = new ManualClock()
    const routes = [{ match: { 'llm:model': '*' }, ...route('a', ['b'], { retry: { on: [403], attempts: 1 } }) }]
    const edge = await routing({ a, b }, routes, { more, env: { EDGE_SECRET_A: 's' }, clock })
    const asked = async (model: string) => (await fetch(at(edge, '/v1/chat/completions'), chat(model))).text()
    for (let i = 0; i < 15; i++) expect(await asked(`m${i}`)).toBe('b')
    expect(await edge.metric('edge_route_coolings_total{backend="a",reason="403"}')).toBe(15)
    expect(edge.logged('backend_cooling')).toHaveLength(10)
    clock.advance(60_000)
    await asked('last')
    expect((await untilLogged(edge, 'backend_cooling', 11)).at(-1)).toMatchObject({ model: 'last', unlogged: 5 })
  })

  test('is shown for the backends of the active bundle alone', async () => {
    const [a, b] = [await named('a'), await named('b')]
    const edge = await routing({ a, b }, [route('a', ['b'])], { env: { EDGE_BACKEND_HOSTS: hostsOf({ a, b }) } })
    expect((await metricsOf(edge.port)).sum('edge_route_cooling{backend="a"}')).toBe(0)
    const text = async (): Promise<string> => (await edge.get('/metrics')).body
    expect(await text()).toContain('edge_route_cooling{backend="a"} 0')
    await edge.publish(routedBundle(2, { b }, [route('b')]))
    expect(await text()).not.toContain('edge_route_cooling{backend="a"}')
    expect(await text()).toContain('edge_route_cooling{backend="b"} 0')
  })
})

describe('the decision log', () => {
  test('has one line for a request, whatever number of backends it took, and says which answered and why others were left', async () => {
    const path = join(await scratchDirectory(), 'decisions.log')
    const [failing, b] = [await HttpBackend.start(saying('', 503)), await named('b')]
    const silent = await HttpBackend.start(() => {})
    const routes = [
      { selector: { pathPrefix: '/one' }, ...route('b') },
      { selector: { pathPrefix: '/none' }, ...route('gone') },
      { selector: { pathPrefix: '/left' }, ...route('silent') },
      { ...route('gone', ['failing']), fallback: [{ name: 'failing' }, { name: 'b', model: 'sent' }], match: { 'llm:model': 'asked' } },
    ]
    const edge = await routing({ gone: NOWHERE, failing, b, silent }, routes, { env: { EDGE_DECISION_LOG: path } })
    await (await fetch(at(edge, '/one'))).text()
    expect((await fetch(at(edge, '/none'))).status).toBe(502)
    await (await fetch(at(edge, '/v1/chat/completions'), chat('asked'))).text()
    const client = RawClient.connect(edge.port)
    client.send('GET /left HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => silent.seen.length === 1)
    client.socket.destroy()
    expect((await fetch(at(edge, '/nowhere'))).status).toBe(404)
    await until(async () => (await linesOf(path)).length === 4)
    const found = await linesOf(path)
    expect(found.map(({ headers }) => headers?.['x-edge-model'])).toEqual([undefined, undefined, 'asked', undefined])
    const lines = found.map(({ uri, backend, attempts, model_sent: modelSent }) => [uri, backend, attempts, modelSent])
    expect(lines).toEqual([
      ['/one', 'b', undefined, undefined],
      ['/none', undefined, [{ backend: 'gone', outcome: 'connect' }], undefined],
      [
        '/v1/chat/completions',
        'b',
        [
          { backend: 'gone', outcome: 'connect' },
          { backend: 'failing', outcome: '503' },
          { backend: 'b', outcome: '200' },
        ],
        'sent',
      ],
      ['/left', undefined, [{ backend: 'silent', outcome: 'client_gone' }], undefined],
    ])
  })
})

test('a request that no backend could take has an empty list of attempts in its line', async () => {
  const path = join(await scratchDirectory(), 'decisions.log')
  let isHeld = false
  const a = await HttpBackend.start((req, res) => {
    if (req.url === '/held') isHeld = true
    else res.writeHead(503, { 'Retry-After': '300' }).end()
  })
  const b = await HttpBackend.start(saying('', 503, { 'Retry-After': '500' }))
  const edge = await routing({ a, b }, [route('a', ['b'])], { env: { EDGE_DECISION_LOG: path }, clock: new ManualClock() })
  for (let i = 0; i < 3; i++) expect((await fetch(at(edge))).status).toBe(503)
  const client = RawClient.connect(edge.port)
  client.send('GET /held HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => isHeld)
  expect((await edge.get('/late')).headers['x-edge-reason']).toBe('backends_cooling')
  client.socket.destroy()
  await until(async () => (await linesOf(path)).length === 5)
  const late = (await linesOf(path)).find(({ uri }) => uri === '/late')!
  expect([late['backend'], late['attempts']]).toEqual([undefined, []])
})

test('a failure of a backend names it', async () => {
  const edge = await routing({ gone: NOWHERE, away: NOWHERE }, [{ selector: { pathPrefix: '/a' }, ...route('gone') }, route('away')])
  for (const path of ['/a', '/b']) expect((await fetch(at(edge, path))).status).toBe(502)
  const lines = await untilLogged(edge, 'backend_failed', 2)
  expect(lines.map(({ backend, reason }) => [backend, reason])).toEqual([
    ['gone', 'backend_refused'],
    ['away', 'backend_refused'],
  ])
})
