import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'

describe('a target or method that is not served', () => {
  const edges: Edge[] = []
  beforeAll(async () => {
    const env = { EDGE_DEBUG_SESSION_SECRET: 's' }
    edges.push(await Edge.start({ bundle: bundle(1), env }), await Edge.start({ env }))
  })
  afterAll(() => Promise.all(edges.map((edge) => edge.stop())))

  describe.each([
    ['with a bundle', 0],
    ['without one', 1],
  ])('%s', (_state, index) => {
    test.each(['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'])(
      '%s /v1/decision: 405 with Allow',
      async (method) => {
        expect(await ask(edges[index]!.port, method, '/v1/decision')).toMatchObject({ status: 405, headers: { allow: 'POST' } })
      },
    )

    test.each(['GET', 'DELETE'])('%s on the debug endpoints: 405 with Allow', async (method) => {
      for (const path of ['/v1/debug/session', '/v1/debug/logout']) {
        expect(await ask(edges[index]!.port, method, path)).toMatchObject({ status: 405, headers: { allow: 'POST' } })
      }
    })

    test.each(['/livez', '/readyz', '/metrics'])('POST %s: 405 with Allow', async (path) => {
      const { status, headers } = await edges[index]!.post(path)
      expect(status).toBe(405)
      expect(headers['allow']!.split(', ')).toContain('GET')
    })

    test.each([
      '/',
      '/v1',
      '/v1/decision/',
      '/V1/decision',
      '//v1/decision',
      '/v1/decisions',
      '/v2/decision',
      '/v1/../v1/decision',
      '/__proto__',
      '/constructor',
    ])('%s: 404', async (path) => {
      expect((await edges[index]!.post(path)).status).toBe(404)
      expect((await edges[index]!.get(path)).status).toBe(404)
    })

    test('OPTIONS *: 404', async () => {
      expect((await ask(edges[index]!.port, 'OPTIONS', '*')).status).toBe(404)
    })
  })

  test('a query is no part of the path', async () => {
    expect((await edges[0]!.get('/livez?verbose=1')).body).toBe('ok')
    expect((await edges[0]!.post('/v1/decision?x=/livez')).headers['x-edge-reason']).toBe('missing_original_method')
  })
})
