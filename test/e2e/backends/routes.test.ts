import { describe, expect, test } from 'vitest'
import { blockRule, bucketRule, llmRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { hostsOf, named, routedBundle, routing, saying, WIRES } from '../../support/proxy/routed.ts'
import { running } from '../../support/service/running.ts'

const to = (...names: string[]): { backends: object[] } => ({ backends: names.map((name) => ({ name })) })
const model = (name: string, more: object = {}): string => JSON.stringify({ ...more, model: name, messages: [] })
const post = (body: string, headers: Record<string, string> = {}) => ({
  method: 'POST',
  headers: { 'Content-Type': 'application/json', ...headers },
  body,
})

describe.each(WIRES)('routes, on %s', (_, env) => {
  test('the first route that covers a request decides, by its path, its fields and the model in its body', async () => {
    const [a, b, c] = [await named('a'), await named('b'), await named('c')]
    const edge = await routing(
      { a, b, c },
      [
        { selector: { pathPrefix: '/files' }, ...to('b') },
        { match: { 'header:x-tier': 'gold' }, ...to('c') },
        { selector: { pathPrefix: '/v1' }, match: { 'llm:model': 'gpt-*' }, ...to('a') },
        { selector: { pathPrefix: '/v1' }, ...to('b') },
      ],
      { env },
    )
    const asked = async (path: string, init?: RequestInit) => (await fetch(`http://127.0.0.1:${edge.port}${path}`, init)).text()
    expect(await asked('/files/1')).toBe('b')
    expect(await asked('/other', { headers: { 'X-Tier': 'gold' } })).toBe('c')
    expect(await asked('/v1/chat/completions', post(model('gpt-4o')))).toBe('a')
    expect(await asked('/v1/chat/completions', post(model('claude')))).toBe('b')
  })

  test('without a route and EDGE_BACKEND_URL a request gets 404 before anything is taken, but after blocks', async () => {
    const a = await named('a')
    const rules = [blockRule('b', { 'header:x-bad': 'yes' }), bucketRule('r', ['ip:address'], 1, 0.0001)]
    const edge = await routing({ a }, [{ selector: { pathPrefix: '/v1' }, ...to('a') }], { env, policies: [policy('p', { rules })] })
    for (let i = 0; i < 3; i++) {
      const unrouted = await fetch(`http://127.0.0.1:${edge.port}/other`)
      expect([unrouted.status, unrouted.headers.get('x-edge-reason')]).toEqual([404, 'no_route'])
    }
    expect((await fetch(`http://127.0.0.1:${edge.port}/other`, { headers: { 'X-Bad': 'yes' } })).status).toBe(403)
    expect((await fetch(`http://127.0.0.1:${edge.port}/v1`)).status).toBe(200)
    expect((await fetch(`http://127.0.0.1:${edge.port}/v1`)).status).toBe(429)
    expect(a.seen.length).toBe(1)
  })

  test('EDGE_BACKEND_URL gets what no route covers', async () => {
    const [a, last] = [await named('a'), await named('last')]
    const edge = await routing({ a }, [{ selector: { pathPrefix: '/v1' }, ...to('a') }], { env: { ...env, EDGE_BACKEND_URL: last.url } })
    expect(await (await fetch(`http://127.0.0.1:${edge.port}/v1`)).text()).toBe('a')
    expect(await (await fetch(`http://127.0.0.1:${edge.port}/other`)).text()).toBe('last')
    // It is not where a request goes whose route has failed.
    await a.close()
    expect((await fetch(`http://127.0.0.1:${edge.port}/v1`)).status).toBe(502)
    expect(last.seen.length).toBe(1)
  })

  test('the backend gets its own Host, its base path and its fields with secrets, instead of those of the client', async () => {
    const a = await named('a')
    const edge = await routing({ a: { url: `${a.url}/base` } }, [to('a')], {
      env: { ...env, EDGE_SECRET_KEY_A: 'canary-1' },
      more: { a: { headers: { Authorization: 'Bearer {KEY_A}', 'X-Team': 'edge' } } },
    })
    await fetch(`http://127.0.0.1:${edge.port}/v1?x=1`, {
      headers: { Authorization: 'Bearer client', 'X-Team': 'mine', x_team: 'mine', 'X-Other': '1' },
    })
    const { url, headers, rawHeaders } = a.seen[0]!
    expect(url).toBe('/base/v1?x=1')
    expect(headers).toMatchObject({ host: new URL(a.url).host, authorization: 'Bearer canary-1', 'x-team': 'edge', 'x-other': '1' })
    expect(rawHeaders.join('\n')).not.toContain('mine')
    expect(rawHeaders.join('\n')).not.toContain('client')
    const climbing = await fetch(`http://127.0.0.1:${edge.port}/v1/..%2fx`)
    expect([climbing.status, climbing.headers.get('x-edge-reason')]).toEqual([400, 'bad_request'])
    expect(await climbing.json()).toMatchObject({ error: { message: expect.stringContaining('outside their base path') } })
  })

  test('the model is replaced in place, and every other byte stays; what cannot be replaced is 400 and takes nothing', async () => {
    const seen: string[] = []
    const a = await HttpBackend.start(async (req, res, { body }) => {
      seen.push(String(await body()))
      res.end(req.url)
    })
    const rules = [bucketRule('r', ['ip:address'], 2, 0.0001)]
    const edge = await routing({ a }, [{ backends: [{ name: 'a', model: 'small' }] }], { env, policies: [policy('p', { rules })] })
    const url = `http://127.0.0.1:${edge.port}/v1/chat/completions`
    expect((await fetch(url, post('{ "x" :1, "mod\\u0065l":  "big" ,"messages":[]}'))).status).toBe(200)
    expect(seen).toEqual(['{ "x" :1, "mod\\u0065l":  "small" ,"messages":[]}'])
    for (const init of [post('{"messages":[]}'), post('no json')]) {
      const refused = await fetch(url, init)
      expect([refused.status, refused.headers.get('x-edge-reason')]).toEqual([400, 'model_not_replaceable'])
    }
    const inPath = await fetch(`http://127.0.0.1:${edge.port}/v1beta/models/big:generateContent`, post('{"contents":[]}'))
    expect(await inPath.text()).toBe('/v1beta/models/small:generateContent')
    expect((await fetch(url, post(model('big')))).status).toBe(429)
  })

  test('a body that is made to ask for usage has its model replaced all the same', async () => {
    const seen: string[] = []
    const a = await HttpBackend.start(async (_req, res, { body }) => {
      seen.push(String(await body()))
      res.end()
    })
    const rule = llmRule('r', [], { tokens_per_minute: 1_000_000, streaming: { enabled: true, ask_usage: true } })
    const edge = await routing({ a }, [{ backends: [{ name: 'a', model: 'small' }] }], { env, policies: [policy('p', { rules: [rule] })] })
    const ask = (body: string) => fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, post(body))
    await ask('{"model":"big","stream":true,"messages":[]}')
    await ask('{"model":"big","stream":true,"stream_options":{"x":1},"messages":[]}')
    await ask('{"stream_options":{"x":1},"stream":true,"messages":[],"model":"big"}')
    const asked = { stream: true, messages: [], model: 'small' }
    expect(seen.map((body) => JSON.parse(body))).toEqual([
      { ...asked, stream_options: { include_usage: true } },
      { ...asked, stream_options: { x: 1, include_usage: true } },
      { ...asked, stream_options: { x: 1, include_usage: true } },
    ])
  })

  test('a body that is too large to find its route is 413', async () => {
    const a = await named('a')
    const edge = await routing({ a }, [{ match: { 'llm:model': 'm' }, ...to('a') }], { env: { ...env, EDGE_MAX_BODY_BYTES: '1000' } })
    const response = await fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, post(model('m', { x: 'x'.repeat(2000) })))
    expect([response.status, a.seen.length]).toEqual([413, 0])
  })

  test('a bundle change keeps the connections of a backend that stays the same, and closes those of one that is gone', async () => {
    const [a, b] = [await named('a'), await named('b')]
    const edge = await running({
      bundle: routedBundle(1, { a, b }, [{ selector: { pathPrefix: '/b' }, ...to('b') }, to('a')]),
      env: { ...env, EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_HOSTS: hostsOf({ a, b }), EDGE_WORKERS: '1', EDGE_SHUTDOWN_MS: '0' },
    })
    await (await fetch(`http://127.0.0.1:${edge.port}/a`)).text()
    await (await fetch(`http://127.0.0.1:${edge.port}/b`)).text()
    await edge.publish(routedBundle(2, { a }, [to('a')]))
    await (await fetch(`http://127.0.0.1:${edge.port}/b`)).text()
    expect(a.seen.map(({ connection }) => connection)).toEqual([1, 1])
    await expect.poll(() => b.openConnections).toBe(0)
  })
})

test('one request is one decision, whatever number of backends it takes', async () => {
  const [a, b] = [await HttpBackend.start(saying('no', 503)), await named('b')]
  const edge = await routing({ a, b }, [{ ...to('a'), fallback: [{ name: 'b' }], retry: { on: ['5xx'], attempts: 1 } }])
  expect(await (await fetch(`http://127.0.0.1:${edge.port}/x`)).text()).toBe('b')
  expect([a.seen.length, b.seen.length]).toEqual([1, 1])
  expect(await edge.metric('edge_decisions_total{action="allow",reason="all_rules_passed",policy="none",route="none"}')).toBe(1)
})
