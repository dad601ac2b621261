import { describe, expect, test } from 'vitest'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { named, routing, saying } from '../../support/proxy/routed.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { until } from '../../support/until.ts'

const ON_STATUS = { on: [429, '5xx'], attempts: 2 }
const to = (name: string, fallback: readonly string[], retry?: object): Record<string, unknown> => ({
  backends: [{ name }],
  ...(fallback.length > 0 && { fallback: fallback.map((other) => ({ name: other })) }),
  ...(retry && { retry }),
})
const CREDENTIAL = { a: { headers: { authorization: 'Bearer {A}' } } }
const SECRET = { EDGE_SECRET_A: 'canary-2' }

async function asked(edge: Edge, path = '/x', init: RequestInit = {}): Promise<string> {
  return (await fetch(`http://127.0.0.1:${edge.port}${path}`, init)).text()
}

const forModel = (model: string): RequestInit => ({
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ model, messages: [] }),
})

describe('cooling', () => {
  test('a backend with a credential of its own that answers 429 is left alone for as long as it asks', async () => {
    const [a, b] = [await HttpBackend.start(saying('busy', 429, { 'Retry-After': '600' })), await named('b')]
    const more = { a: { headers: { authorization: 'Bearer {A}' } } }
    const edge = await routing({ a, b }, [to('a', ['b'], ON_STATUS)], { env: { EDGE_SECRET_A: 'canary-2' }, more })
    for (let i = 0; i < 3; i++) expect(await (await fetch(`http://127.0.0.1:${edge.port}/x`)).text()).toBe('b')
    expect([a.seen.length, b.seen.length]).toEqual([1, 3])
  })

  test("a 429 for the client's own credential takes the backend from nobody", async () => {
    const [a, b] = [await HttpBackend.start(saying('busy', 429, { 'Retry-After': '600' })), await named('b')]
    const edge = await routing({ a, b }, [to('a', ['b'], ON_STATUS)])
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
    const edge = await routing({ a, b }, [to('a', ['b'], { on: ['5xx'], attempts: 1 })])
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
    const edge = await routing({ a }, [to('a', [])])
    for (let i = 0; i < 5; i++) expect(await (await fetch(`http://127.0.0.1:${edge.port}/x`)).text()).toBe('down')
    expect(a.seen.length).toBe(5)
  })

  test('requests with the same key go to the same backend, to another one while it cools, and then back', async () => {
    let refusal: string | undefined
    const a = await HttpBackend.start(
      (_req, res) => void (refusal === undefined ? res.end('a') : res.writeHead(429, { 'Retry-After': refusal }).end('no')),
    )
    const b = await named('b')
    const clock = new ManualClock()
    const route = { backends: [{ name: 'a' }, { name: 'b' }], stick_to: ['header:x-user'] }
    const edge = await routing({ a, b }, [route], { env: SECRET, more: CREDENTIAL, clock })
    const users = Array.from({ length: 20 }, (_, i) => ({ headers: { 'X-User': `user-${i}` } }))
    const all = () => Promise.all(users.map((user) => asked(edge, '/x', user)))
    const first = await all()
    expect(await all()).toEqual(first)
    expect(new Set(first)).toEqual(new Set(['a', 'b']))
    refusal = '60'
    expect(await asked(edge, '/x', users[first.indexOf('a')])).toBe('no')
    expect(await all()).toEqual(users.map(() => 'b'))
    refusal = undefined
    clock.advance(60_001)
    expect(await asked(edge, '/x', users[first.indexOf('a')])).toBe('a')
    expect(await all()).toEqual(first)
  })

  test.each([429, 401, 402, 403])('%i cools one model, and only if the credential is ours', async (status) => {
    const a = await HttpBackend.start(async (_req, res, { body }) => {
      const { model } = JSON.parse(String(await body())) as { model: string }
      res.writeHead(model === 'bad' ? status : 200, { 'Retry-After': '600' }).end('a')
    })
    const b = await named('b')
    const route = { ...to('a', ['b']), match: { 'llm:model': '*' } }
    for (const [more, seen] of [
      [CREDENTIAL, ['a', 'b', 'b', 'a']],
      [{}, ['a', 'a', 'a', 'a']],
    ] as const) {
      const edge = await routing({ a, b }, [route], { env: SECRET, more })
      const answers: string[] = []
      for (const model of ['bad', 'bad', 'bad', 'good']) answers.push(await asked(edge, '/v1/chat/completions', forModel(model)))
      expect(answers).toEqual(seen)
    }
  })

  test('three failed connections in a row cool a backend, and so do three timeouts', async () => {
    const broken = await RawBackend.start(
      () => {},
      (socket) => socket.destroy(),
    )
    const silent = await HttpBackend.start(() => {})
    const backends = { broken: { url: broken.url.replace('http:', 'https:') }, silent, b: await named('b') }
    const routes = [{ selector: { pathPrefix: '/broken' }, ...to('broken', ['b']) }, to('silent', ['b'], { on: ['timeout'] })]
    const more = { silent: { headers_timeout_seconds: 0.1 } }
    const edge = await routing(backends, routes, { more, clock: new ManualClock() })
    for (let i = 0; i < 5; i++) expect([await asked(edge, '/broken'), await asked(edge, '/silent')]).toEqual(['b', 'b'])
    expect([broken.connections.length, silent.seen.length]).toEqual([3, 3])
  })

  test('fewer than three failures in a row cool nothing, nor do three with an answer between them', async () => {
    const statuses = [500, 502, 200, 503, 404, 500, 500]
    const a = await HttpBackend.start((_req, res) => void res.writeHead(statuses.shift() ?? 200).end('a'))
    const b = await named('b')
    const edge = await routing({ a, b }, [to('a', ['b'])])
    for (let i = 0; i < 8; i++) expect(await asked(edge)).toBe('a')
    expect(b.seen.length).toBe(0)
  })

  test('without Retry-After, the time doubles from a second to a minute with each probe that fails, and an answer ends it', async () => {
    let status = 503
    const a = await HttpBackend.start((_req, res) => void res.writeHead(status).end('a'))
    const b = await named('b')
    const clock = new ManualClock()
    const edge = await routing({ a, b }, [to('a', ['b'])], { clock })
    const askedLater = async (ms: number) => {
      clock.advance(ms)
      return asked(edge)
    }
    for (let i = 0; i < 3; i++) expect(await askedLater(1)).toBe('a')
    for (const seconds of [1, 2, 4, 8, 16, 32, 60, 60]) {
      expect([seconds, await askedLater(seconds * 1000 - 1)]).toEqual([seconds, 'b'])
      expect([seconds, await askedLater(1)]).toEqual([seconds, 'a'])
    }
    status = 200
    expect([await askedLater(59_999), await askedLater(1), await askedLater(1)]).toEqual(['b', 'a', 'a'])
  })

  test.each([
    ['seconds', { 'Retry-After': '300' }, 300],
    ['a date', { 'Retry-After': 'Thu, 15 Jan 2026 09:05:00 GMT', Date: 'Thu, 15 Jan 2026 09:00:00 GMT' }, 300],
    ['more than ten minutes', { 'Retry-After': '86400' }, 600],
    ['a date far ahead', { 'Retry-After': 'Fri, 15 Jan 2100 09:05:00 GMT', Date: 'Thu, 15 Jan 2026 09:00:00 GMT' }, 600],
    ['nothing that can be read', { 'Retry-After': 'soon' }, 1],
    ['no time at all', { 'Retry-After': '0' }, 1],
  ])('a backend is left alone for as long as it asks: %s', async (_what, fields, seconds) => {
    const a = await HttpBackend.start((_req, res) => void res.writeHead(429, fields).end('a'))
    const b = await named('b')
    const clock = new ManualClock()
    const edge = await routing({ a, b }, [to('a', ['b'])], { env: SECRET, more: CREDENTIAL, clock })
    expect([await asked(edge), await asked(edge)]).toEqual(['a', 'b'])
    clock.advance(seconds * 1000 - 1)
    expect(await asked(edge)).toBe('b')
    clock.advance(1)
    expect(await asked(edge)).toBe('a')
  })

  test.each([
    ['a later deadline extends the time', '500', 500],
    ['an earlier one does not shorten it', '1', 300],
  ])('%s, also that of a call which began before', async (_what, retryAfter, seconds) => {
    const answers: ((retryAfter: string) => void)[] = []
    const a = await HttpBackend.start((_req, res) => {
      answers.push((after) => res.writeHead(503, { 'Retry-After': after }).end('a'))
    })
    const b = await named('b')
    const clock = new ManualClock()
    const edge = await routing({ a, b }, [to('a', ['b'])], { clock })
    let ended = 0
    const calls = Array.from({ length: 4 }, async () => {
      expect(await asked(edge)).toBe('a')
      ended++
    })
    await until(() => answers.length === 4)
    for (const answer of answers.splice(0, 3)) answer('300')
    await until(() => ended === 3)
    answers.pop()!(retryAfter)
    await Promise.all(calls)
    clock.advance(seconds * 1000 - 1)
    expect(await asked(edge)).toBe('b')
    clock.advance(1)
    const probe = asked(edge)
    await until(() => answers.length === 1)
    answers[0]!('1')
    expect(await probe).toBe('a')
  })
})
