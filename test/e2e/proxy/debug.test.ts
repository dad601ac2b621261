import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { serverPort } from '../../support/service/server-port.ts'

const ENV = { EDGE_DEBUG_SESSION_SECRET: 'secret' }
const NAMES = ['decision', 'mode', 'reason', 'policy', 'rule', 'latency-us', 'matched-policies', 'descriptor-1-key', 'descriptor-1-value']

describe('a debug session through the proxy', () => {
  test('explains allowed and rejected requests, to its holder alone', async () => {
    const [edge] = await start()
    const cookie = await login(edge)
    const allowed = await edge.get('/', [
      ['Cookie', `a=b; ${cookie}`],
      ['X-Key', 'k'],
    ])
    expect(allowed.headers).toMatchObject({
      'x-edge-debug-decision': 'allow',
      'x-edge-debug-mode': 'enforce',
      'x-edge-debug-policy': 'p',
      'x-edge-debug-rule': 'r',
      'x-edge-debug-descriptor-1-key': 'header:x-key',
      'x-edge-debug-descriptor-1-value': 'k',
    })
    for (const name of NAMES) expect(allowed.headers).toHaveProperty(`x-edge-debug-${name}`)
    const rejected = await edge.get('/', [
      ['Cookie', cookie],
      ['X-Key', 'k'],
    ])
    expect(rejected).toMatchObject({ status: 429, headers: { 'x-edge-debug-decision': 'reject', 'x-edge-debug-policy': 'p' } })
    const other = await edge.get('/', [['X-Key', 'other']])
    expect(Object.keys(other.headers).filter((name) => name.startsWith('x-edge-debug'))).toEqual([])
  })

  test('explains a failure of the backend, too', async () => {
    const edge = await proxying({ url: `http://127.0.0.1:${await serverPort()}` }, { env: ENV, bundle: BUNDLE, clock: new ManualClock() })
    const cookie = await login(edge)
    const answer = await edge.get('/', [
      ['Cookie', cookie],
      ['X-Key', 'k'],
    ])
    expect(answer).toMatchObject({ status: 502, headers: { 'x-edge-reason': 'backend_refused', 'x-edge-debug-decision': 'allow' } })
  })

  test('its cookie stays here: the backend sees the others, in any number of fields', async () => {
    const [edge, backend] = await start()
    const cookie = await login(edge)
    await edge.get('/', [
      ['Cookie', cookie],
      ['Cookie', 'a=b'],
      ['Cookie', `c=d; ${cookie}; e=f`],
    ])
    const cookies = backend.only.rawHeaders.filter((_, i) => backend.only.rawHeaders[i - 1]?.toLowerCase() === 'cookie')
    expect(cookies).toEqual(['a=b', 'c=d; e=f'])
  })

  test('a cookie that is none explains nothing, and stays here as well', async () => {
    const [edge, backend] = await start()
    const answer = await edge.get('/', [['Cookie', 'edge_dbg=forged']])
    expect(Object.keys(answer.headers).filter((name) => name.startsWith('x-edge-debug'))).toEqual([])
    expect(backend.only.headers).not.toHaveProperty('cookie')
  })

  test('ends with its logout', async () => {
    const [edge] = await start()
    const cookie = await login(edge)
    expect((await edge.post('/v1/debug/logout', [['Cookie', cookie]])).status).toBe(204)
    expect((await edge.get('/', [['Cookie', cookie]])).headers).not.toHaveProperty('x-edge-debug-decision')
  })

  test('what it tells takes the place of what the backend says in its name, and of no other field', async () => {
    const backend = await HttpBackend.start((_req, res) => {
      res.writeHead(200, { 'X-Edge-Debug-Policy': 'theirs', ETag: '"x"', Vary: 'Accept', 'X-Edge-Debug-Other': 'theirs' })
      res.end()
    })
    // Names of fields as values: as the id of a policy, and as the value of a descriptor.
    const policies = bundle(1, policy('etag', { rules: [bucketRule('r', ['header:x-key'], 9)] }))
    const edge = await proxying(backend, { env: ENV, bundle: policies, clock: new ManualClock() })
    const cookie = await login(edge)
    const { headers } = await edge.get('/', [
      ['Cookie', cookie],
      ['X-Key', 'vary'],
    ])
    expect(headers).toMatchObject({
      'x-edge-debug-policy': 'etag',
      'x-edge-debug-descriptor-1-value': 'vary',
    })
    expect(headers).not.toHaveProperty('x-edge-debug-other')
    expect(headers).toMatchObject({ etag: '"x"', vary: 'Accept' })
  })
})

const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-key'], 1)] }))

async function start(): Promise<[Edge, HttpBackend]> {
  const backend = await HttpBackend.start()
  return [await proxying(backend, { env: ENV, bundle: BUNDLE, clock: new ManualClock() }), backend]
}

async function login(edge: Edge): Promise<string> {
  const { status, headers } = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', 'secret']])
  expect(status).toBe(204)
  return headers['set-cookie']!.split(';')[0]!
}
