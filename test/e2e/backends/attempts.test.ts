import { describe, expect, test } from 'vitest'
import { concurrencyRule, policy } from '../../support/bundles/bundles.ts'
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
    let cut = (): void => {}
    const a = await HttpBackend.start((_req, res) => {
      res.writeHead(200, { 'Content-Length': '10' }).write('half')
      cut = () => res.destroy()
    })
    const b = await named('b')
    const edge = await routing({ a, b }, [to('a', ['b'], { on: ['connect', 'timeout', '5xx'], attempts: 2 })], { env })
    const client = RawClient.connect(edge.port)
    client.send('GET /x HTTP/1.1\r\nHost: a\r\n\r\n')
    await client.sees('half')
    cut()
    expect(await client.closed()).toMatch(/half$/)
    expect(b.seen.length).toBe(0)
  })

  test('a connection that breaks before the answer counts as 502', async () => {
    const a = await HttpBackend.start((_req, res) => void res.destroy())
    const b = await named('b')
    const routes = [{ selector: { pathPrefix: '/timeout' }, ...to('a', ['b'], { on: ['timeout'] }) }, to('a', ['b'], { on: [502] })]
    const edge = await routing({ a, b }, routes, { env })
    expect(await (await fetch(`http://127.0.0.1:${edge.port}/x`)).text()).toBe('b')
    expect((await fetch(`http://127.0.0.1:${edge.port}/timeout`)).status).toBe(502)
  })

  test('a backend that is silent for longer than its headers_timeout_seconds is left after a timeout', async () => {
    const a = await HttpBackend.start(() => {})
    const b = await named('b')
    const routes = [{ selector: { pathPrefix: '/status' }, ...to('a', ['b'], { on: ['5xx'] }) }, to('a', ['b'], { on: ['timeout'] })]
    const edge = await routing({ a, b }, routes, { env, more: { a: { headers_timeout_seconds: 0.2 } } })
    expect(await (await fetch(`http://127.0.0.1:${edge.port}/x`)).text()).toBe('b')
    expect((await fetch(`http://127.0.0.1:${edge.port}/status`)).status).toBe(504)
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
