import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { askRaw, proxying } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const OWN = ['/livez', '/readyz', '/metrics']
const DEBUG = ['/v1/debug/session', '/v1/debug/logout']
const ONE_EACH = bundle(1, policy('p', { rules: [bucketRule('r', [], 1, 0.001)] }))

describe('without EDGE_ADMIN_PORT', () => {
  test('the proxy answers its own paths itself, and counts them as nothing', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { bundle: ONE_EACH, clock: new ManualClock() })
    for (let i = 0; i < 3; i++) for (const path of OWN) expect([path, (await edge.get(path)).status]).toEqual([path, 200])
    expect((await edge.get('/livez?x=1')).body).toBe('ok')
    expect((await askRaw(edge.port, 'GET http://a/livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')).body).toBe('ok')
    expect(backend.seen).toEqual([])
    expect((await edge.get('/')).headers['ratelimit-remaining']).toBe('0')
  })

  test('it says at its start that clients can reach them', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    expect(await untilLogged(edge, 'admin_endpoints_exposed')).toContainEqual(
      expect.objectContaining({ event: 'admin_endpoints_exposed', level: 40 }),
    )
  })

  test('debug endpoints without a secret are nobody’s: 404, not the backend’s', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    for (const path of DEBUG) expect([path, (await ask(edge.port, 'POST', path)).status]).toEqual([path, 404])
    expect(backend.seen).toEqual([])
  })

  test('other methods of its own paths are refused', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    expect(await ask(edge.port, 'POST', '/metrics', [], 'x')).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD' } })
    expect(await ask(edge.port, 'HEAD', '/livez')).toMatchObject({ status: 200, body: '' })
    expect(backend.seen).toEqual([])
  })

  test.each(['/livez/', '//livez', '/LIVEZ', '/%6civez', '/x/../livez', '/livez;x', '/v1/decision'])(
    '%s is the backend’s',
    async (path) => {
      const backend = await HttpBackend.start()
      const edge = await proxying(backend)
      expect((await edge.get(path)).body).toBe('hello')
      expect(backend.only.url).toBe(path)
    },
  )

  test('they work without a bundle', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { bundle: '' })
    expect(await edge.get('/readyz')).toMatchObject({ status: 503, body: '{"status":"not_ready","reason":"no_policy_loaded"}' })
    expect((await edge.get('/livez')).status).toBe(200)
    expect((await edge.get('/')).status).toBe(503)
  })
})

describe('with EDGE_ADMIN_PORT', () => {
  const env = { EDGE_ADMIN_PORT: '0', EDGE_DEBUG_SESSION_SECRET: 's' }

  test('its own paths are there, and on the main port all paths are the backend’s', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env })
    const admin = edge.adminPort
    for (const path of OWN) {
      expect([path, (await ask(admin, 'GET', path)).status]).toEqual([path, 200])
      expect([path, (await ask(edge.port, 'GET', path)).body]).toEqual([path, 'hello'])
    }
    expect((await ask(admin, 'POST', '/v1/debug/session', [['X-Edge-Debug-Secret', 's']])).status).toBe(204)
    expect((await ask(admin, 'POST', '/v1/debug/logout')).status).toBe(204)
    for (const path of DEBUG) expect([path, (await ask(edge.port, 'POST', path)).body]).toEqual([path, 'hello'])
    expect(backend.seen.map(({ url }) => url)).toEqual([...OWN, ...DEBUG])
  })

  test('the admin port is no proxy', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env })
    expect((await ask(edge.adminPort, 'GET', '/')).status).toBe(404)
    expect((await ask(edge.adminPort, 'POST', '/v1/decision')).status).toBe(404)
    expect(backend.seen).toEqual([])
  })

  test('nothing is exposed, and nothing is said', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env })
    expect(edge.log.filter(({ event }) => event === 'admin_endpoints_exposed')).toEqual([])
  })

  test('what is asked of the main port shows on the admin port', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env, bundle: ONE_EACH, clock: new ManualClock() })
    for (let i = 0; i < 3; i++) await edge.get('/metrics')
    const { body } = await ask(edge.adminPort, 'GET', '/metrics')
    expect(body).toContain('edge_decisions_total{action="allow",reason="all_rules_passed",policy="p",route="/"} 1\n')
    expect(body).toContain('edge_decisions_total{action="reject",reason="token_bucket_exceeded",policy="p",route="/"} 2\n')
    expect(body).toContain('edge_backend_responses_total{status="2xx"} 1\n')
    expect(body).toContain('edge_backend_response_seconds_count 1\n')
  })
})
