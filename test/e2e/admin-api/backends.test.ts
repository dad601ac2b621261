import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { named, routedBundle, routing, saying } from '../../support/proxy/routed.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const NOW = '2026-01-15T12:00:00.000Z'
const ROUTE = { backends: [{ name: 'a' }], fallback: [{ name: 'b' }], retry: { on: ['5xx', 401, 429], attempts: 1 } }
const HEALTHY = {
  state: 'healthy',
  reason: null,
  since: null,
  cooling_until: null,
  failures_in_a_row: 0,
  cooling_models: [],
  last_failure: null,
}

const backendsOf = async (edge: Edge) => (await askAdmin(edge.adminPort, 'GET', 'backends')).json
const problemsOf = async (edge: Edge) => (await askAdmin(edge.adminPort, 'GET', 'status')).json.problems
const get = async (edge: Edge, times = 1): Promise<number[]> => {
  const statuses: number[] = []
  for (let i = 0; i < times; i++) {
    const response = await fetch(`http://127.0.0.1:${edge.port}/x`)
    await response.arrayBuffer()
    statuses.push(response.status)
  }
  return statuses
}
const chat = async (edge: Edge, model: string): Promise<number> => {
  const body = JSON.stringify({ model, messages: [] })
  const headers = { 'Content-Type': 'application/json' }
  const response = await fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, { method: 'POST', headers, body })
  await response.arrayBuffer()
  return response.status
}
const retry = (edge: Edge, name: string, body: unknown = { reason: 'ticket 4711' }) =>
  askAdmin(edge.adminPort, 'POST', `backends/${name}/retry`, { body, actor: 'ada' })

async function proxying(routes: readonly object[] = [ROUTE], more: Readonly<Record<string, object>> = {}, env: object = {}) {
  const [a, b] = [await HttpBackend.start(saying('a', 503)), await named('b')]
  const clock = new ManualClock()
  const options = { clock, more, env: { ...ADMIN_ENV, EDGE_BACKEND_MAX_CONNECTIONS: '20', ...env } }
  const edge = await routing({ a, b }, routes as Parameters<typeof routing>[1], options)
  return { a, b, clock, edge }
}

describe('GET backends', () => {
  test('has each backend with its URL, state, connections and routes, and the routes in their order', async () => {
    const routes = [
      {
        selector: { pathPrefix: '/v1', methods: ['POST'] },
        match: { 'header:x-tier': 'gold' },
        backends: [{ name: 'b', weight: 3 }, { name: 'a' }],
        stick_to: ['ip:address'],
      },
      { backends: [{ name: 'b' }], fallback: [{ name: 'a', model: 'small' }], retry: { on: ['5xx'], attempts: 2 } },
      { backends: [{ name: 'b' }] },
    ]
    const { a, b, edge } = await proxying(routes)
    expect(await backendsOf(edge)).toEqual({
      backends: [
        { name: 'a', url: a.url, has_credential: false, ...HEALTHY, connections: 0, max_connections: 10, queue: 0, routes: [0, 1] },
        { name: 'b', url: b.url, has_credential: false, ...HEALTHY, connections: 0, max_connections: 10, queue: 0, routes: [0, 1, 2] },
      ],
      default: null,
      routes: [
        {
          number: 0,
          selector: { pathPrefix: '/v1', methods: ['POST'] },
          match: ['header:x-tier'],
          backends: [
            { name: 'b', weight: 3, model: null },
            { name: 'a', weight: 1, model: null },
          ],
          fallback: [],
          stick_to: ['ip:address'],
          attempts: 1,
        },
        {
          number: 1,
          selector: {},
          match: [],
          backends: [{ name: 'b', weight: 1, model: null }],
          fallback: [{ name: 'a', weight: null, model: 'small' }],
          stick_to: [],
          attempts: 2,
        },
        {
          number: 2,
          selector: {},
          match: [],
          backends: [{ name: 'b', weight: 1, model: null }],
          fallback: [],
          stick_to: [],
          attempts: 1,
        },
      ],
      routes_in_all: 3,
    })
  })

  test('says that a backend fails, that it cools, that requests try it, and that it is healthy again', async () => {
    const { a, edge, clock } = await proxying()
    const first = async () => (await backendsOf(edge)).backends[0]
    await get(edge, 2)
    expect(await first()).toMatchObject({ ...HEALTHY, failures_in_a_row: 2, last_failure: { reason: '5xx', at: NOW } })
    await get(edge)
    const cooling = { state: 'cooling', reason: '5xx', since: NOW, cooling_until: '2026-01-15T12:00:01.000Z', failures_in_a_row: 3 }
    expect(await first()).toMatchObject(cooling)
    clock.advance(1001)
    expect(await first()).toMatchObject({ state: 'probing', reason: '5xx', since: NOW, cooling_until: null, failures_in_a_row: 3 })
    await get(edge)
    // The second round is twice as long, and it has failed since the first one.
    expect(await first()).toMatchObject({ state: 'cooling', since: NOW, cooling_until: '2026-01-15T12:00:03.000Z', failures_in_a_row: 4 })
    clock.advance(2001)
    a.handler = saying('a')
    await get(edge)
    expect(await first()).toMatchObject({ ...HEALTHY, last_failure: { reason: '5xx', at: '2026-01-15T12:00:01.000Z' } })
  })

  test('says which models a backend refuses, and never a credential', async () => {
    const more = { a: { open: true, headers: { authorization: 'Bearer {A}', 'x-api-key': 'canary-in-the-bundle' } } }
    const { a, edge } = await proxying([{ match: { 'llm:model': '*' }, ...ROUTE }], more, { EDGE_SECRET_A: 'canary-secret' })
    a.handler = saying('no', 401)
    expect(await chat(edge, 'gpt-4o')).toBe(200)
    const report = await backendsOf(edge)
    expect(report.backends[0]).toMatchObject({
      ...HEALTHY,
      has_credential: true,
      cooling_models: [{ model: 'gpt-4o', state: 'cooling', reason: '401', since: NOW, until: '2026-01-15T12:00:01.000Z' }],
      last_failure: { reason: '401', at: NOW },
    })
    const problems = await problemsOf(edge)
    expect(problems).toMatchObject([
      { code: 'backend_cooling', message: 'backend a refuses its credential (status 401) for gpt-4o', since: NOW },
    ])
    expect(JSON.stringify([report, problems, edge.log])).not.toContain('canary')
  })

  test('has EDGE_BACKEND_URL apart', async () => {
    const env = { ...ADMIN_ENV, EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:1/base', EDGE_BACKEND_MAX_CONNECTIONS: '7' }
    const proxy = await running({ bundle: bundle(1), env })
    expect(await backendsOf(proxy)).toEqual({
      backends: [],
      default: { url: 'http://127.0.0.1:1/base', connections: 0, max_connections: 7, queue: 0 },
      routes: [],
      routes_in_all: 0,
    })
  })

  test('is empty where nothing is forwarded, whatever the bundle says', async () => {
    const routes = routedBundle(1, { a: { url: 'http://127.0.0.1:1' } }, [{ backends: [{ name: 'a' }] }])
    const edge = await running({ bundle: routes, env: { ...ADMIN_ENV, EDGE_BACKEND_HOSTS: '127.0.0.1:1' } })
    expect(await backendsOf(edge)).toEqual({ backends: [], default: null, routes: [], routes_in_all: 0 })
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).json).toMatchObject({ backends: [], problems: [] })
  })

  test('lists a hundred routes of a thousand, and refuses parameters', async () => {
    const routes = Array.from({ length: 1000 }, (_, i) => ({ selector: { pathPrefix: `/r${i}` }, ...ROUTE }))
    const { edge } = await proxying(routes)
    const report = await backendsOf(edge)
    expect([report.routes.length, report.routes_in_all, report.backends[0].routes.length]).toEqual([100, 1000, 1000])
    const { status, json } = await askAdmin(edge.adminPort, 'GET', 'backends?all=yes')
    expect([status, json.error.message]).toEqual([400, 'unknown parameter "all"; expected none'])
  })

  test('counts connections that are open, and requests that wait for one', async () => {
    const { a, edge } = await proxying([{ backends: [{ name: 'a' }] }], {}, { EDGE_BACKEND_MAX_CONNECTIONS: '2' })
    let release = (): void => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    a.handler = async (_req, res) => {
      await held
      res.end('a')
    }
    const both = [get(edge), get(edge)]
    await until(async () => (await backendsOf(edge)).backends[0].queue === 1)
    expect((await backendsOf(edge)).backends[0]).toMatchObject({ connections: 1, max_connections: 1 })
    release()
    expect(await Promise.all(both)).toEqual([[200], [200]])
    await until(async () => (await backendsOf(edge)).backends[0].queue === 0)
  })
})

describe('GET status', () => {
  test('has the backends in short, and what is wrong with them for as long as it lasts', async () => {
    const { a, b, edge, clock } = await proxying()
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).json).toMatchObject({
      backends: [
        { name: 'a', state: 'healthy', reason: null, since: null, cooling_until: null },
        { name: 'b', state: 'healthy', reason: null, since: null, cooling_until: null },
      ],
      problems: [],
    })
    await get(edge, 3)
    const failing =
      'backend a fails, 3 times in a row: a status of 500 or above, or a broken connection; it gets no requests until 12:00:01 UTC if a route has another backend'
    expect(await problemsOf(edge)).toEqual([{ code: 'backend_cooling', message: failing, since: NOW, details: [], details_in_all: 0 }])
    b.handler = saying('b', 500)
    expect(await get(edge, 3)).toEqual([500, 500, 500])
    expect((await problemsOf(edge)).map(({ code, message }: { code: string; message: string }) => [code, message])).toEqual([
      ['backend_cooling', failing],
      ['backend_cooling', expect.stringContaining('backend b fails, 3 times in a row')],
      ['backends_cooling', 'every backend of routes[0] cools: one request at a time is tried, the others get 503 backends_cooling'],
    ])
    clock.advance(1001)
    expect((await problemsOf(edge))[0].message).toMatch(/broken connection; one request at a time tries it$/)
    a.handler = saying('a')
    b.handler = saying('b')
    await get(edge)
    expect(await problemsOf(edge)).toMatchObject([{ code: 'backend_cooling', message: expect.stringContaining('backend b') }])
  })

  test('no longer has a backend that the next bundle leaves out', async () => {
    const { b, edge } = await proxying()
    await get(edge, 3)
    expect(await problemsOf(edge)).toHaveLength(1)
    await edge.publish(routedBundle(2, { b }, [{ backends: [{ name: 'b' }] }]))
    await until(async () => (await problemsOf(edge)).length === 0)
  })
})

describe('POST backends/{name}/retry', () => {
  test('has a backend that cools tried at once, by one request at a time, and says who wanted it', async () => {
    const { a, edge, clock } = await proxying()
    a.handler = saying('busy', 503, { 'Retry-After': '600' })
    await get(edge, 4)
    expect((await backendsOf(edge)).backends[0]).toMatchObject({ state: 'cooling', cooling_until: '2026-01-15T12:10:00.000Z' })
    const seen = a.seen.length
    const { status, json } = await retry(edge, 'a')
    expect([status, json]).toMatchObject([200, { name: 'a', state: 'probing', cooling_until: null }])
    clock.advance(1)
    a.handler = saying('a')
    expect(await get(edge)).toEqual([200])
    expect(a.seen.length).toBe(seen + 1)
    expect((await backendsOf(edge)).backends[0]).toMatchObject(HEALTHY_AGAIN)
    const line = { event: 'backend_retried', actor: 'ada', reason: 'ticket 4711', backend: 'a' }
    expect(await untilLogged(edge, 'backend_retried')).toMatchObject([line])
    const { changes } = (await askAdmin(edge.adminPort, 'GET', 'changes')).json
    expect(changes[0]).toMatchObject({ change: 'backend_retried', actor: 'ada', reason: 'ticket 4711', id: 'a', policy: null })
  })

  test('does the same for its models', async () => {
    const more = { a: { headers: { authorization: 'Bearer {A}' } } }
    const { a, edge, clock } = await proxying([{ match: { 'llm:model': '*' }, ...ROUTE }], more, { EDGE_SECRET_A: 'secret' })
    a.handler = saying('no', 429, { 'Retry-After': '300' })
    await chat(edge, 'gpt-4o')
    expect((await retry(edge, 'a')).json.cooling_models).toMatchObject([{ model: 'gpt-4o', state: 'probing', until: null }])
    a.handler = saying('a')
    const seen = a.seen.length
    clock.advance(1)
    await chat(edge, 'gpt-4o')
    expect(a.seen.length).toBe(seen + 1)
    expect((await backendsOf(edge)).backends[0].cooling_models).toEqual([])
  })

  test('changes and logs nothing if there is no such backend, it does not cool, or nobody says why', async () => {
    const { edge } = await proxying()
    for (const [name, body, expected] of [
      ['a', { reason: 'r' }, [409, 'backend "a" does not cool, so there is nothing to retry']],
      ['%61', { reason: 'r' }, [404, 'there is no backend "%61" in the active bundle']],
      ['a', {}, [400, 'reason: missing. Say why, for the log.']],
      ['a', { reason: 'r', until: '1h' }, [400, 'unknown fields: "until"; expected reason']],
    ] as const) {
      const { status, json } = await retry(edge, name, body)
      expect([status, json.error.message]).toEqual(expected)
    }
    await get(edge, 3)
    expect((await retry(edge, 'a', { reason: '\n' })).status).toBe(400)
    expect((await askAdmin(edge.adminPort, 'POST', 'backends/a/retry', { body: { reason: 'r' }, token: 'wrong' })).status).toBe(401)
    expect((await backendsOf(edge)).backends[0].state).toBe('cooling')
    expect(edge.logged('backend_retried')).toEqual([])
  })

  test('suggests the name that was meant, and says if there are none', async () => {
    const openai = await named('openai')
    const edge = await routing({ openai }, [{ backends: [{ name: 'openai' }] }], { env: ADMIN_ENV })
    expect((await retry(edge, 'opnai')).json.error.message).toBe(
      'there is no backend "opnai" in the active bundle — did you mean "openai"?',
    )
    await edge.publish(bundle(2))
    await until(async () => (await backendsOf(edge)).backends.length === 0)
    const { status, json } = await retry(edge, 'openai')
    expect([status, json.error.code]).toEqual([404, 'unknown_backend'])
    expect(json.error.message).toBe('there is no backend "openai": the active bundle has no routes that this instance uses')
  })
})

const HEALTHY_AGAIN = { ...HEALTHY, last_failure: { reason: '5xx' } }
