import { describe, expect, test } from 'vitest'
import { budgetRule, concurrencyRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { named, routing, saying, WIRES } from '../../support/proxy/routed.ts'
import { until } from '../../support/until.ts'

const NOWHERE = { url: 'http://127.0.0.1:1' }
const ON_STATUS = { on: [429, '5xx'], attempts: 2 }
const to = (name: string, fallback: readonly string[], retry?: object): Record<string, unknown> => ({
  backends: [{ name }],
  ...(fallback.length > 0 && { fallback: fallback.map((other) => ({ name: other })) }),
  ...(retry && { retry }),
})
const json = (body: string): RequestInit => ({ method: 'POST', headers: { 'Content-Type': 'application/json' }, body })

describe.each(WIRES)('attempts, on %s', (_, env) => {
  test('a backend that cannot be connected to is left for the next one by default, with the same body', async () => {
    const b = await HttpBackend.start(async (_req, res, { body }) => void res.end(await body()))
    const edge = await routing({ a: NOWHERE, b }, [to('a', ['b'])], { env })
    const body = 'x'.repeat(300_000)
    const response = await fetch(`http://127.0.0.1:${edge.port}/x`, json(body))
    expect([response.status, (await response.text()) === body]).toEqual([200, true])
  })

  test('a status is passed on unless the route retries it, and the client sees nothing of an answer that was left', async () => {
    const [a, b] = [await HttpBackend.start(saying('secret of a', 503, { 'X-From': 'a' })), await named('b')]
    const edge = await routing({ a, b }, [{ selector: { pathPrefix: '/plain' }, ...to('a', ['b']) }, to('a', ['b'], ON_STATUS)], { env })
    const plain = await fetch(`http://127.0.0.1:${edge.port}/plain`)
    expect([plain.status, await plain.text()]).toEqual([503, 'secret of a'])
    const client = RawClient.connect(edge.port)
    client.send('GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    await until(() => client.isClosed)
    expect(client.received).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    expect(client.received).not.toContain('X-From')
    expect(client.received).not.toContain('secret of a')
    expect(client.received).toMatch(/\r\n\r\n(?:1\r\n)?b/)
  })

  test('the second attempt has the same body as the first, if it was read; a body that was not is never sent twice', async () => {
    const bodies: string[] = []
    const noted = (status: number) =>
      HttpBackend.start(async (_req, res, { body }) => {
        bodies.push(String(await body()))
        res.writeHead(status).end('done')
      })
    const [a, b] = [await noted(500), await noted(200)]
    const routes = [
      { selector: { pathPrefix: '/v1' }, match: { 'llm:model': 'm' }, ...to('a', ['b'], ON_STATUS) },
      to('a', ['b'], ON_STATUS),
    ]
    const edge = await routing({ a, b }, routes, { env })
    const body = `{"model":"m", "messages" : [] , "x":"${'é'.repeat(50_000)}"}`
    expect((await fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, json(body))).status).toBe(200)
    expect(bodies).toEqual([body, body])
    expect((await fetch(`http://127.0.0.1:${edge.port}/upload`, json('unread'))).status).toBe(500)
    expect(bodies.slice(2)).toEqual(['unread'])
  })

  test('nothing is retried after the first byte to the client', async () => {
    const a = await HttpBackend.start((_req, res) => {
      res.writeHead(200, { 'Content-Length': '10' }).write('half')
      setTimeout(() => res.destroy(), 50)
    })
    const b = await named('b')
    const edge = await routing({ a, b }, [to('a', ['b'], { on: ['connect', 'timeout', '5xx'], attempts: 2 })], { env })
    await expect(fetch(`http://127.0.0.1:${edge.port}/x`).then((response) => response.text())).rejects.toThrow()
    expect(b.seen.length).toBe(0)
  })

  test('a connection that breaks before the answer counts as 502, and a silent backend as a timeout', async () => {
    const a = await HttpBackend.start((req, res) => {
      if (req.url === '/break') res.destroy()
    })
    const b = await named('b')
    const more = { a: { headers_timeout_seconds: 0.2 } }
    const edge = await routing({ a, b }, [to('a', ['b'], { on: ['timeout', 502], attempts: 1 })], { env, more })
    expect(await (await fetch(`http://127.0.0.1:${edge.port}/break`)).text()).toBe('b')
    expect(await (await fetch(`http://127.0.0.1:${edge.port}/silent`)).text()).toBe('b')
  })

  test('an upgrade is never sent twice', async () => {
    const b = await named('b')
    const edge = await routing({ a: NOWHERE, b }, [to('a', ['b'], ON_STATUS)], { env })
    const client = RawClient.connect(edge.port)
    client.send(
      'GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
    )
    await until(() => client.received.includes('\r\n\r\n'))
    expect(client.received).toMatch(/^HTTP\/1\.1 502 /)
    expect(b.seen.length).toBe(0)
  })

  test('at most so many more backends are tried as the route says, and the client gets the last answer', async () => {
    const failing = await Promise.all(['a', 'b', 'c'].map((name) => HttpBackend.start(saying(name, 500))))
    const [a, b, c] = failing as [HttpBackend, HttpBackend, HttpBackend]
    const edge = await routing({ a, b, c }, [to('a', ['b', 'c'], { on: ['5xx'], attempts: 1 })], { env })
    const response = await fetch(`http://127.0.0.1:${edge.port}/x`)
    expect([response.status, await response.text()]).toEqual([500, 'b'])
    expect(c.seen.length).toBe(0)
  })

  test('a client that leaves ends the attempt, and its place in flight is free again', async () => {
    const a = await HttpBackend.start(() => {})
    const b = await named('b')
    const policies = [policy('p', { rules: [concurrencyRule('r', ['ip:address'], 1)] })]
    const edge = await routing({ a, b }, [{ selector: { pathPrefix: '/b' }, ...to('b', []) }, to('a', ['b'])], { env, policies })
    const client = RawClient.connect(edge.port)
    client.send('GET /x HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => a.seen.length === 1)
    expect((await fetch(`http://127.0.0.1:${edge.port}/b`)).status).toBe(429)
    client.socket.destroy()
    await until(async () => (await fetch(`http://127.0.0.1:${edge.port}/b`)).status === 200)
    expect(a.seen[0]!.isAborted || a.openConnections === 0).toBe(true)
  })
})

describe.each(WIRES)('cooling, on %s', (_, env) => {
  test('a backend with a credential of its own that answers 429 is left alone for as long as it asks', async () => {
    const [a, b] = [await HttpBackend.start(saying('busy', 429, { 'Retry-After': '600' })), await named('b')]
    const more = { a: { headers: { authorization: 'Bearer {A}' } } }
    const edge = await routing({ a, b }, [to('a', ['b'], ON_STATUS)], { env: { ...env, EDGE_SECRET_A: 'canary-2' }, more })
    for (let i = 0; i < 3; i++) expect(await (await fetch(`http://127.0.0.1:${edge.port}/x`)).text()).toBe('b')
    expect([a.seen.length, b.seen.length]).toEqual([1, 3])
  })

  test("a 429 for the client's own credential takes the backend from nobody", async () => {
    const [a, b] = [await HttpBackend.start(saying('busy', 429, { 'Retry-After': '600' })), await named('b')]
    const edge = await routing({ a, b }, [to('a', ['b'], ON_STATUS)], { env })
    for (let i = 0; i < 3; i++) expect(await (await fetch(`http://127.0.0.1:${edge.port}/x`)).text()).toBe('b')
    expect(a.seen.length).toBe(3)
  })

  test('three failures in a row cool a backend; while all cool one request tries, and the others get 503 with Retry-After', async () => {
    let answer: (() => void) | undefined
    const a = await HttpBackend.start((req, res) => {
      if (req.url === '/probe') answer = () => void res.end('well again')
      else res.writeHead(503, { 'Retry-After': '300' }).end('down')
    })
    const b = await HttpBackend.start(saying('down too', 503, { 'Retry-After': '500' }))
    const edge = await routing({ a, b }, [to('a', ['b'], { on: ['5xx'], attempts: 1 })], { env })
    for (let i = 0; i < 3; i++) expect((await fetch(`http://127.0.0.1:${edge.port}/x`)).status).toBe(503)
    expect([a.seen.length, b.seen.length]).toEqual([3, 3])
    const probe = fetch(`http://127.0.0.1:${edge.port}/probe`)
    await until(() => answer !== undefined)
    const other = await fetch(`http://127.0.0.1:${edge.port}/x`)
    expect([other.status, other.headers.get('x-edge-reason')]).toEqual([503, 'backends_cooling'])
    expect(Number(other.headers.get('retry-after'))).toBeGreaterThan(200)
    answer!()
    expect(await (await probe).text()).toBe('well again')
    expect((await fetch(`http://127.0.0.1:${edge.port}/x`)).status).toBe(503)
    expect(a.seen.length).toBe(5)
  })

  test('a backend without another one never cools', async () => {
    const a = await HttpBackend.start(saying('down', 503, { 'Retry-After': '300' }))
    const edge = await routing({ a }, [to('a', [])], { env })
    for (let i = 0; i < 5; i++) expect(await (await fetch(`http://127.0.0.1:${edge.port}/x`)).text()).toBe('down')
    expect(a.seen.length).toBe(5)
  })

  test('requests with the same key go to the same backend, and to another one only while it cools', async () => {
    const [a, b] = [await named('a'), await named('b')]
    const edge = await routing({ a, b }, [{ backends: [{ name: 'a' }, { name: 'b' }], stick_to: ['header:x-user'] }], { env })
    const asked = async (user: string) => (await fetch(`http://127.0.0.1:${edge.port}/x`, { headers: { 'X-User': user } })).text()
    const users = Array.from({ length: 20 }, (_, i) => `user-${i}`)
    const first = await Promise.all(users.map(asked))
    expect(await Promise.all(users.map(asked))).toEqual(first)
    expect(new Set(first)).toEqual(new Set(['a', 'b']))
  })
})

describe('money', () => {
  test('is reserved for the dearest model that the route may send, and settled by the one that was sent', async () => {
    const usage = JSON.stringify({ usage: { prompt_tokens: 1000, completion_tokens: 1000, total_tokens: 2000 }, choices: [] })
    const a = await HttpBackend.start(saying('no', 500))
    const b = await HttpBackend.start(saying(usage, 200, { 'Content-Type': 'application/json' }))
    const prices = { cheap: { input: 1, output: 1 }, dear: { input: 100, output: 100 }, '*': { input: 10, output: 10 } }
    const rule = budgetRule('r', ['ip:address'], { budget: 1, period: '1d', prices: 'list' })
    const route = { backends: [{ name: 'a', model: 'dear' }], fallback: [{ name: 'b', model: 'cheap' }], retry: ON_STATUS }
    const edge = await routing({ a, b }, [route], { policies: [policy('p', { rules: [rule] })], prices: { list: prices } })
    const ask = (tokens: number) =>
      fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, json(JSON.stringify({ model: 'any', max_tokens: tokens, messages: [] })))
    // 20,000 tokens of the dear model would cost 2, of all others 0.2 at most.
    expect((await ask(20_000)).status).toBe(429)
    const response = await ask(5000)
    expect([response.status, (await response.text()) === usage]).toEqual([200, true])
    // Settled by the dear model, 0.2 would be gone.
    await until(async () => (await ask(9900)).status === 200)
  })
})
