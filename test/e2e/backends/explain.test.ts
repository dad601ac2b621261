import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN } from '../../support/admin/admin-client.ts'
import { explained } from '../../support/admin/explained.ts'
import { blockRule, bucketRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { named, routing, saying } from '../../support/proxy/routed.ts'
import { command } from '../../support/service/command.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { until } from '../../support/until.ts'

const HEALTHY = { model: null, state: 'healthy', reason: null, cooling_until: null }
const RETRY = { on: ['5xx', 429], attempts: 2 }
const CHAT = { method: 'POST', uri: '/v1/chat/completions', headers: { 'Content-Type': 'application/json' } }
const chat = (model: string) => ({ ...CHAT, body: JSON.stringify({ model, messages: [] }) })
const post = (port: number, model: string) =>
  fetch(`http://127.0.0.1:${port}${CHAT.uri}`, { method: 'POST', headers: CHAT.headers, body: chat(model).body })

describe('where a request would go', () => {
  test('is its route and all backends of it, with their part of such requests', async () => {
    const [a, b, c, d] = [await named('a'), await named('b'), await named('c'), await named('d')]
    const routes = [
      { selector: { pathPrefix: '/other' }, backends: [{ name: 'c' }] },
      { backends: [{ name: 'a', weight: 3 }, { name: 'b' }, { name: 'c', weight: 0 }], fallback: [{ name: 'd' }] },
    ]
    const edge = await routing({ a, b, c, d }, routes, { env: ADMIN_ENV })
    expect((await explained(edge.adminPort, { uri: '/x', host: 'h' })).backend).toEqual({
      route: 1,
      sticky: false,
      candidates: [
        { name: 'a', fallback: false, weight: 3, share: 0.75, ...HEALTHY },
        { name: 'b', fallback: false, weight: 1, share: 0.25, ...HEALTHY },
        { name: 'c', fallback: false, weight: 0, share: 0, ...HEALTHY },
        { name: 'd', fallback: true, weight: 0, share: 0, ...HEALTHY },
      ],
    })
    expect((await explained(edge.adminPort, { uri: '/other', host: 'h' })).backend).toMatchObject({
      route: 0,
      candidates: [{ name: 'c', share: 1 }],
    })
    expect([a.seen.length, b.seen.length, c.seen.length]).toEqual([0, 0, 0])
  })

  test('is the backend that it sticks to, the same one that it is sent to', async () => {
    const [a, b] = [await named('a'), await named('b')]
    const route = { backends: [{ name: 'a' }, { name: 'b' }], stick_to: ['header:x-user'] }
    const edge = await routing({ a, b }, [route], { env: ADMIN_ENV })
    for (const user of ['u1', 'u2', 'u3', 'u4', 'u5']) {
      const { backend } = await explained(edge.adminPort, { uri: '/x', host: 'h', headers: { 'X-User': user } })
      const { body } = await edge.get('/x', [['X-User', user]])
      const next = backend.candidates.filter(({ share }: { share: number }) => share > 0)
      expect([backend.sticky, next.map(({ name }: { name: string }) => name)]).toEqual([true, [body]])
    }
    expect((await explained(edge.adminPort, { uri: '/x', host: 'h' })).backend.sticky).toBe(false)
  })

  test('changes while a backend or a model cools, which says why and until when', async () => {
    const clock = new ManualClock()
    const a = await HttpBackend.start(saying('', 429, { 'Retry-After': '60' }))
    const [b, c] = [await HttpBackend.start(saying('', 503)), await named('c')]
    const more = { a: { headers: { authorization: 'Bearer {A}' } } }
    const route = { match: { 'llm:model': '*' }, backends: [{ name: 'a' }], fallback: [{ name: 'b' }, { name: 'c', model: 'sent' }] }
    const env = { ...ADMIN_ENV, EDGE_SECRET_A: 'canary-9' }
    const edge = await routing({ a, b, c }, [{ ...route, retry: RETRY }], { env, more, clock })
    const states = async (model: string): Promise<unknown> => {
      const { backend } = await explained(edge.adminPort, { ...chat(model), host: 'h' })
      return backend.candidates.map(({ state, reason, share }: Record<string, unknown>) => [state, reason, share])
    }
    for (let i = 0; i < 3; i++) await (await post(edge.port, 'm')).text()
    const until = new Date(clock.wallMs() + 60_000).toISOString()
    const found = await explained(edge.adminPort, { ...chat('m'), host: 'h' })
    expect(found.backend.candidates).toMatchObject([
      { name: 'a', state: 'cooling', reason: '429', cooling_until: until, share: 0 },
      { name: 'b', state: 'cooling', reason: '5xx', share: 0 },
      { name: 'c', state: 'healthy', share: 1, fallback: true, model: 'sent' },
    ])
    expect(JSON.stringify(found)).not.toContain('canary-9')
    expect(await states('another')).toEqual([
      ['healthy', null, 1],
      ['cooling', '5xx', 0],
      ['healthy', null, 0],
    ])
    clock.advance(60_001)
    expect(await states('m')).toEqual([
      ['recovering', '429', 1],
      ['recovering', '5xx', 0],
      ['healthy', null, 0],
    ])
  })

  test('is the backend that is back first while all cool, and none while another request tries it', async () => {
    const clock = new ManualClock()
    let answer: (() => void) | undefined
    const a = await HttpBackend.start((req, res) => {
      if (req.url === '/probe') answer = () => void res.end('a')
      else res.writeHead(503, { 'Retry-After': '300' }).end()
    })
    const b = await HttpBackend.start(saying('', 503, { 'Retry-After': '500' }))
    const edge = await routing({ a, b }, [{ backends: [{ name: 'a' }], fallback: [{ name: 'b' }], retry: RETRY }], {
      env: ADMIN_ENV,
      clock,
    })
    for (let i = 0; i < 3; i++) await (await fetch(`http://127.0.0.1:${edge.port}/x`)).text()
    const shares = async (): Promise<unknown> =>
      (await explained(edge.adminPort, { uri: '/x', host: 'h' })).backend.candidates.map(({ share }: { share: number }) => share)
    expect(await shares()).toEqual([1, 0])
    const probe = fetch(`http://127.0.0.1:${edge.port}/probe`)
    await until(() => answer !== undefined)
    expect(await shares()).toEqual([0, 0])
    const { status, headers } = await edge.get('/x')
    expect([status, headers['x-edge-reason']]).toEqual([503, 'backends_cooling'])
    answer!()
    clock.advance(1)
    expect(await (await probe).text()).toBe('a')
  })

  test('without another backend is that one, whatever it answers', async () => {
    const a = await HttpBackend.start(saying('', 503))
    const edge = await routing({ a }, [{ backends: [{ name: 'a' }] }], { env: ADMIN_ENV })
    for (let i = 0; i < 4; i++) await (await fetch(`http://127.0.0.1:${edge.port}/x`)).text()
    const { backend } = await explained(edge.adminPort, { uri: '/x', host: 'h' })
    expect(backend.candidates).toMatchObject([{ name: 'a', state: 'healthy', share: 1 }])
  })

  test('is nowhere if no route covers it, its model cannot be replaced, or a base path forbids it; limits and blocks come with the route', async () => {
    const a = await named('a')
    const routes = [
      { selector: { pathPrefix: '/v1' }, backends: [{ name: 'a', model: 'm' }] },
      { selector: { pathPrefix: '/based' }, backends: [{ name: 'based' }] },
      { selector: { pathPrefix: '/blocked' }, backends: [{ name: 'a' }] },
    ]
    const policies = [policy('p', { selector: { pathPrefix: '/blocked' }, rules: [blockRule('r')] })]
    const edge = await routing({ a, based: { url: `${a.url}/tenant` } }, routes, { env: ADMIN_ENV, policies })
    const verdict = async (request: object) => {
      const { action, status, reason, backend } = await explained(edge.adminPort, { host: 'h', ...request })
      return [action, status, reason, backend?.route]
    }
    expect(await verdict({ uri: '/nowhere' })).toEqual(['refuse', 404, 'no_route', null])
    expect(await verdict({ ...chat('x') })).toEqual(['allow', 200, 'all_rules_passed', 0])
    expect(await verdict({ ...CHAT, body: 'no model' })).toEqual(['refuse', 400, 'model_not_replaceable', 0])
    expect(await verdict({ uri: '/based/..;/x' })).toEqual(['refuse', 400, 'bad_request', 1])
    expect(await verdict({ uri: '/blocked' })).toEqual(['reject', 403, 'blocked', 2])
  })

  test('is not said without routes', async () => {
    const a = await named('a')
    const edge = await routing({ a }, [{ selector: { pathPrefix: '/only' }, backends: [{ name: 'a' }] }], {
      env: { ...ADMIN_ENV, EDGE_BACKEND_URL: a.url },
    })
    expect((await explained(edge.adminPort, { uri: '/x', host: 'h' })).backend).toEqual({ route: null, sticky: false, candidates: [] })
    await edge.publish({ bundle_version: 2, policies: [policy('p', { rules: [bucketRule('r', [], 1)] })] })
    expect(await explained(edge.adminPort, { uri: '/x', host: 'h' })).not.toHaveProperty('backend')
  })

  test('is in the words of edge explain', async () => {
    const clock = new ManualClock()
    const [a, b] = [await HttpBackend.start(saying('', 503, { 'Retry-After': '60' })), await named('b')]
    const route = { backends: [{ name: 'a' }], fallback: [{ name: 'b', model: 'sent' }], retry: RETRY, match: { 'llm:model': '*' } }
    const edge = await routing({ a, b }, [route], { env: ADMIN_ENV, clock })
    for (let i = 0; i < 3; i++) await (await post(edge.port, 'm')).text()
    vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${edge.adminPort}`)
    vi.stubEnv('EDGE_ADMIN_TOKEN', ADMIN_TOKEN)
    onTestFinished(() => void vi.unstubAllEnvs())
    const flags = ['-H', 'Content-Type: application/json', '-d', chat('m').body, '--host', 'h']
    const { stdout } = await command('explain', ...flags, CHAT.uri)
    const until = new Date(clock.wallMs() + 60_000).toISOString().replace('.000Z', 'Z')
    expect(stdout).toContain(`\nWhere it goes by routes[0]:\n  a  cools until ${until} (5xx)\n  b  is next, fallback, gets model sent\n`)
  })
})
