import { request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient, statusesIn, valuesOf } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import type { Owner } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const BODY = '{"messages":[{"role":"user","content":"hello"}],"max_tokens":5}'

const PLAIN = bundle(1, policy('p', { rules: [bucketRule('plain', [], 2)] }))
const BUDGET = bundle(1, policy('p', { rules: [bucketRule('plain', [], 2), llmRule('tokens', [], { tokens_per_minute: 100_000 })] }))

for (const [what, policies] of [
  ['without a token budget', PLAIN],
  ['with a token budget', BUDGET],
] as const) {
  describe.concurrent(`Expect: 100-continue ${what}`, () => {
    test('allowed: 100, then the body, then one answer and one charge', async (t) => {
      const [edge, backend] = await start(t)
      const client = RawClient.connect(edge.port, t)
      client.send(head(BODY.length))
      await client.sees('HTTP/1.1 100 Continue\r\n\r\n')
      client.send(BODY)
      await client.sees('hello')
      expect(statusesIn(client.received)).toEqual([100, 200])
      expect((await backend.only.body()).toString()).toBe(BODY)
      client.received = ''
      client.send('GET /next HTTP/1.1\r\nHost: a\r\n\r\n')
      expect(valuesOf(await client.next(), 'RateLimit')).toEqual(['"p";r=0;t=2'])
    })

    test('in chunks', async (t) => {
      const [edge, backend] = await start(t)
      const client = RawClient.connect(edge.port, t)
      client.send('POST /up HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nTransfer-Encoding: chunked\r\n\r\n')
      await client.sees('HTTP/1.1 100 Continue\r\n\r\n')
      client.send(`${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`)
      await client.sees('hello')
      expect(statusesIn(client.received)).toEqual([100, 200])
      expect((await backend.only.body()).toString()).toBe(BODY)
    })

    test('rejected: 429 and no 100; the body is never asked for and the backend not touched', async (t) => {
      const [edge, backend] = await start(t)
      for (let i = 0; i < 2; i++) expect((await edge.get('/')).status).toBe(200)
      const client = RawClient.connect(edge.port, t)
      client.send(head(BODY.length))
      await client.sees('token_bucket_exceeded')
      expect(statusesIn(client.received)).toEqual([429])
      expect(backend.seen.map(({ url }) => url)).toEqual(['/', '/'])
    })

    test('malformed: 400 and no 100', async (t) => {
      const [edge, backend] = await start(t)
      const client = RawClient.connect(edge.port, t)
      client.send(`POST /up HTTP/1.1\r\nHost: a\r\nHost: b\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n`)
      expect(statusesIn(await client.closed())).toEqual([400])
      expect(backend.connections).toBe(0)
    })

    test('a body that does not wait for the 100 is no trouble', async (t) => {
      const [edge, backend] = await start(t)
      const client = RawClient.connect(edge.port, t)
      client.send(`${head(BODY.length)}${BODY}`)
      await client.sees('hello')
      expect((await backend.only.body()).toString()).toBe(BODY)
    })

    test('without a body', async (t) => {
      const [edge] = await start(t)
      const client = RawClient.connect(edge.port, t)
      client.send(head(0))
      await client.sees('hello')
      expect(statusesIn(client.received).at(-1)).toBe(200)
    })

    test('a client of node:http that waits gets what it waits for', async (t) => {
      const [edge, backend] = await start(t)
      const status = await new Promise((resolve, reject) => {
        const req = request({
          port: edge.port,
          host: '127.0.0.1',
          method: 'PUT',
          headers: { Expect: '100-continue', 'Content-Length': 3 },
          agent: false,
        })
        req.on('continue', () => req.end('abc'))
        req.on('response', (res) => res.resume().on('end', () => resolve(res.statusCode)))
        req.on('error', reject)
        req.flushHeaders()
      })
      expect(status).toBe(200)
      expect((await backend.only.body()).toString()).toBe('abc')
    })

    test('HTTP/1.0 gets no 100', async (t) => {
      const [edge] = await start(t)
      const client = RawClient.connect(edge.port, t)
      client.send(`POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc`)
      expect(statusesIn(await client.closed())).toEqual([200])
    })

    test('what else is expected is ignored', async (t) => {
      const [edge, backend] = await start(t)
      const client = RawClient.connect(edge.port, t)
      client.send('POST / HTTP/1.1\r\nHost: a\r\nExpect: a miracle\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc')
      expect(statusesIn(await client.closed())).toEqual([200])
      expect(backend.connections).toBe(1)
    })

    async function start(t: Owner): Promise<[Edge, HttpBackend]> {
      const backend = await HttpBackend.start(undefined, 0, t)
      const options = { clock: new ManualClock(), bundle: policies, env: { EDGE_MAX_BODY_BYTES: '1000' } }
      return [await proxying(backend, options, t), backend]
    }
  })
}

describe.concurrent('a token budget and a body that is too large', () => {
  test('is refused by its length: 413 before any 100', async (t) => {
    const backend = await HttpBackend.start(undefined, 0, t)
    const edge = await proxying(backend, { clock: new ManualClock(), bundle: BUDGET, env: { EDGE_MAX_BODY_BYTES: '1000' } }, t)
    const client = RawClient.connect(edge.port, t)
    client.send(head(1001))
    await client.sees('body_too_large')
    expect(statusesIn(client.received)).toEqual([413])
    expect(backend.connections).toBe(0)
    expect((await edge.get('/')).headers['ratelimit-remaining']).toBe('1')
  })

  test('in chunks is refused when it has become too large, and its client reads why', async (t) => {
    const backend = await HttpBackend.start(undefined, 0, t)
    const edge = await proxying(backend, { clock: new ManualClock(), bundle: BUDGET, env: { EDGE_MAX_BODY_BYTES: '1000' } }, t)
    const client = RawClient.connect(edge.port, t)
    client.send('POST /up HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n')
    await client.sees('100 Continue')
    client.send(`3e9\r\n${'x'.repeat(1001)}\r\n`)
    await client.sees('body_too_large')
    expect(statusesIn(client.received)).toEqual([100, 413])
    expect(backend.connections).toBe(0)
    await until(() => client.isClosed || client.hasEnded)
  })

  test('a rejected upload that is already on its way reads its 429', async (t) => {
    const backend = await HttpBackend.start(undefined, 0, t)
    const edge = await proxying(backend, { clock: new ManualClock(), bundle: PLAIN }, t)
    for (let i = 0; i < 2; i++) await edge.get('/')
    const client = RawClient.connect(edge.port, t)
    await client.uploads(20_000_000)
    expect([statusesIn(client.received), client.errorCode]).toEqual([[429], undefined])
  })
})

function head(length: number): string {
  return `POST /up HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`
}
