import { describe, expect, test } from 'vitest'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { named, routing, saying } from '../../support/proxy/routed.ts'
import type { Edge } from '../../support/service/edge.ts'
import { until } from '../../support/until.ts'

const NOWHERE = { url: 'http://127.0.0.1:1' }
const RETRY = { on: ['connect', '5xx'], attempts: 3 }
const SECRET = { EDGE_DEBUG_SESSION_SECRET: 'secret' }
const FORGED = { 'X-Edge-Debug-Backend': 'forged', 'X-Edge-Debug-Attempts': 'forged 200' }

async function login(edge: Edge): Promise<string> {
  const { headers } = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', 'secret']])
  return headers['set-cookie']!.split(';')[0]!
}

describe('a debug session', () => {
  test('names the backend that answered and all that were tried, to its holder alone; no backend can', async () => {
    const [failing, b] = [await HttpBackend.start(saying('', 503, FORGED)), await HttpBackend.start(saying('b', 200, FORGED))]
    const routes = [{ backends: [{ name: 'gone' }], fallback: [{ name: 'failing' }, { name: 'b' }], retry: RETRY }]
    const edge = await routing({ gone: NOWHERE, failing, b }, routes, { env: SECRET })
    const { headers, body } = await edge.get('/x', [['Cookie', await login(edge)]])
    expect(body).toBe('b')
    expect(headers).toMatchObject({
      'x-edge-debug-decision': 'allow',
      'x-edge-debug-backend': 'b',
      'x-edge-debug-attempts': 'gone connect, failing 503, b 200',
    })
    const other = await edge.get('/x')
    expect(Object.keys(other.headers).filter((name) => name.startsWith('x-edge-debug'))).toEqual([])
  })

  test('lists what was tried if nothing answered, and says it on an upgrade', async () => {
    const b = await named('b')
    b.server.on('upgrade', (_req, socket) => {
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    })
    const routes = [
      { selector: { pathPrefix: '/socket' }, backends: [{ name: 'b' }] },
      { backends: [{ name: 'gone' }], fallback: [{ name: 'away' }] },
    ]
    const edge = await routing({ gone: NOWHERE, away: NOWHERE, b }, routes, { env: SECRET })
    const cookie = await login(edge)
    const { status, headers } = await edge.get('/x', [['Cookie', cookie]])
    expect([status, headers['x-edge-debug-attempts']]).toEqual([502, 'gone connect, away connect'])
    expect(headers).not.toHaveProperty('x-edge-debug-backend')
    const client = RawClient.connect(edge.port)
    client.send(`GET /socket HTTP/1.1\r\nHost: a\r\nCookie: ${cookie}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
    await until(() => client.received.includes('\r\n\r\n'))
    expect(client.received).toMatch(/^HTTP\/1\.1 101 /)
    expect(client.received).toContain('\r\nX-Edge-Debug-Backend: b\r\nX-Edge-Debug-Attempts: b 101\r\n')
    expect(await edge.metric('edge_route_attempts_total{backend="b",outcome="1xx"}')).toBe(1)
  })
})
