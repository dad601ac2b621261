import { describe, expect, test } from 'vitest'
import { blockRule, bucketRule, bundle, jwt, llmRule, policy, unlimitedRule } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, askRaw, inChunks, pairs, proxying, type RawAnswer, RawClient, valuesOf } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { type Answer, ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const KEY = ['header:x-api-key']

describe('a limit by host', () => {
  const byHost = policy('api', { selector: { hosts: ['api.example.com'] }, rules: [bucketRule('r', [], 1)] })
  const statusFor = async (edge: Edge, host: string): Promise<number> =>
    (await askRaw(edge.port, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)).status

  test('is escaped by other hosts, and the log says so', async () => {
    const edge = await proxying(await HttpBackend.start(), { bundle: bundle(1, byHost) })
    expect(await untilLogged(edge, 'bundle_warnings')).toMatchObject([
      {
        warnings: [expect.stringMatching(/^policies\[0\]\.spec\.selector\.hosts: in reverse_proxy, requests for "\/" with any other Host/)],
      },
    ])
  })

  test('is not if a policy blocks them, which the log takes as an answer', async () => {
    const known = unlimitedRule('known', { 'header:host': ['api.example.com', 'api.example.com:*'] })
    const others = policy('other-hosts', { rules: [known, blockRule('others', 'else')] })
    const edge = await proxying(await HttpBackend.start(), { bundle: bundle(1, byHost, others) })
    const hosts = ['api.example.com', 'api.example.com:8080', 'other.example', 'API.example.com', 'x.api.example.com']
    const statuses: number[] = []
    for (const host of hosts) statuses.push(await statusFor(edge, host))
    expect(statuses).toEqual([200, 429, 403, 403, 403])
    expect(JSON.stringify(edge.logged('bundle_warnings'))).not.toContain('any other Host')
  })
})

describe('every request is decided before the backend sees it', () => {
  test('allowed ones reach it, the rejected one does not', async () => {
    const [edge, backend] = await limited(2)
    expect(await statuses(edge, 3)).toEqual([200, 200, 429])
    expect(backend.seen).toHaveLength(2)
    expect(backend.connections).toBe(1)
  })

  test('the answer says how the caller stands', async () => {
    const [edge] = await limited(2)
    const { headers, body } = await edge.get('/')
    expect(body).toBe('hello')
    expect(headers).toMatchObject({
      'ratelimit-limit': '2',
      'ratelimit-remaining': '1',
      'ratelimit-reset': '1',
      ratelimit: '"p";r=1;t=1',
    })
    expect(headers).not.toHaveProperty('x-edge-reason')
    expect(headers).not.toHaveProperty('retry-after')
  })

  test('a reject says why, how long, and in a body that LLM clients read', async () => {
    const [edge, backend] = await limited(1)
    await edge.get('/')
    const { status, headers, body } = await edge.get('/')
    expect(status).toBe(429)
    expect(headers).toMatchObject({
      'retry-after': '1',
      'x-edge-reason': 'token_bucket_exceeded',
      'ratelimit-limit': '1',
      'ratelimit-remaining': '0',
      'ratelimit-reset': '1',
      ratelimit: '"p";r=0;t=1',
      'content-type': 'application/json',
    })
    expect(JSON.parse(body)).toEqual({
      error: { message: 'Rate limit exceeded. Retry in 1 s.', type: 'rate_limit_error', code: 'token_bucket_exceeded' },
    })
    expect(backend.seen).toHaveLength(1)
  })

  test('a rejected HEAD has the head of the reject and no body', async () => {
    const [edge] = await limited(1)
    await edge.get('/')
    const received = await answerBytes(edge.port, 'HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect(received).toMatch(/^HTTP\/1\.1 429 /)
    expect(received).toMatch(/\r\nX-Edge-Reason: token_bucket_exceeded\r\n/)
    expect(received.endsWith('\r\n\r\n')).toBe(true)
  })

  test('a caller with an empty bucket passes again when it has refilled', async () => {
    const clock = new ManualClock()
    const [edge, backend] = await limited(1, clock)
    expect(await statuses(edge, 2)).toEqual([200, 429])
    clock.advance(1000)
    expect(await statuses(edge, 2)).toEqual([200, 429])
    expect(backend.seen).toHaveLength(2)
  })

  test('all policies that match count, each by its own selector', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, {
      clock: new ManualClock(),
      bundle: bundle(
        1,
        policy('all', { rules: [bucketRule('all', [], 3)] }),
        policy('api', { selector: { pathPrefix: '/api' }, rules: [bucketRule('api', [], 1)] }),
        policy('delete', { selector: { methods: ['DELETE'] }, rules: [bucketRule('delete', [], 1)] }),
        policy('host', { selector: { hosts: ['*.example.com'] }, rules: [bucketRule('host', [], 1)] }),
      ),
    })
    const rejecting = async (method: string, path: string, host = 'other'): Promise<string> => {
      const answer = await askRaw(edge.port, `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
      return `${answer.status} ${valuesOf(answer, 'RateLimit')[0]}`
    }
    expect(await rejecting('GET', '/api/x')).toBe('200 "api";r=0;t=1')
    expect(await rejecting('GET', '//%61pi/./y')).toBe('429 "api";r=0;t=1')
    expect(await rejecting('DELETE', '/')).toBe('200 "delete";r=0;t=1')
    expect(await rejecting('DELETE', '/')).toBe('429 "delete";r=0;t=1')
    expect(await rejecting('GET', '/', 'a.example.com:8080')).toBe('200 "all";r=0;t=3')
    expect(await rejecting('GET', '/', 'A.EXAMPLE.COM')).toBe('429 "all";r=0;t=1')
    expect(backend.seen.map(({ method, url }) => `${method} ${url}`)).toEqual(['GET /api/x', 'DELETE /', 'GET /'])
  })

  test('keys come from the request itself: headers, tokens, the address', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, {
      clock: new ManualClock(),
      bundle: bundle(
        1,
        policy('key', { rules: [bucketRule('r', KEY, 1)] }),
        policy('sub', { rules: [bucketRule('r', ['jwt:sub'], 1)] }),
        policy('ip', { rules: [bucketRule('r', ['ip:address'], 1)] }),
      ),
    })
    const from = (address: string, ...fields: [string, string][]): Promise<Answer> =>
      edge.get('/', [['X-Forwarded-For', address], ...fields])
    const bearer = (sub: string): [string, string] => ['Authorization', `Bearer ${jwt({ sub })}`]
    expect((await from('192.0.2.1', ['X-Api-Key', 'a'])).status).toBe(200)
    expect((await from('192.0.2.2', ['x-api-KEY', 'a'])).headers['ratelimit']).toBe('"key";r=0;t=1')
    expect((await from('192.0.2.3', bearer('ann'))).status).toBe(200)
    expect((await from('192.0.2.4', bearer('ann'))).headers['ratelimit']).toBe('"sub";r=0;t=1')
    expect((await from('192.0.2.1')).headers['ratelimit']).toBe('"ip";r=0;t=1')
    expect((await from('192.0.2.4')).status).toBe(200)
    expect(backend.seen).toHaveLength(3)
  })

  test('a peer that forwards for nobody is itself the client', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, {
      clock: new ManualClock(),
      bundle: bundle(1, policy('p', { rules: [bucketRule('ip', ['ip:address'], 1)] })),
    })
    expect(await statuses(edge, 2)).toEqual([200, 429])
  })

  test('X-Original-* means nothing here', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, {
      clock: new ManualClock(),
      bundle: bundle(1, policy('p', { selector: { pathPrefix: '/free' }, rules: [bucketRule('r', [], 1)] })),
    })
    const fields = [
      ['X-Original-URI', '/free'],
      ['X-Original-Method', 'PUT'],
      ['X-Original-Host', 'other'],
    ] as const
    for (let i = 0; i < 3; i++) expect((await edge.get('/paid', fields)).headers).not.toHaveProperty('ratelimit')
    expect(backend.seen[0]!.headers).toMatchObject({ 'x-original-uri': '/free', 'x-original-method': 'PUT', 'x-original-host': 'other' })
  })

  test('pipelined requests are decided one by one and answered in order', async () => {
    const backend = await HttpBackend.start((req, res) => void res.end(req.url))
    const edge = await proxying(backend, { clock: new ManualClock(), bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 3)] })) })
    const client = RawClient.connect(edge.port)
    client.send([1, 2, 3, 4, 5].map((n) => `GET /${n} HTTP/1.1\r\nHost: a\r\n\r\n`).join(''))
    const answers = [await client.next(), await client.next(), await client.next(), await client.next(), await client.next()]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429])
    expect(answers.slice(0, 3).map(({ body }) => body)).toEqual(['/1', '/2', '/3'])
    expect(backend.seen.map(({ url }) => url).sort()).toEqual(['/1', '/2', '/3'])
  })

  test('no bundle: 503, and the backend is not touched', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { bundle: '' })
    const { status, headers, body } = await edge.get('/')
    expect([status, headers['x-edge-reason'], headers['content-type']]).toEqual([503, 'no_bundle_loaded', 'application/json'])
    expect(JSON.parse(body).error).toMatchObject({ code: 'no_bundle_loaded', type: 'service_unavailable' })
    expect((await ask(edge.port, 'POST', '/v1/decision')).status).toBe(503)
    expect(backend.connections).toBe(0)
    expect(await edge.metric('edge_refused_requests_total{reason="no_bundle_loaded"}')).toBe(2)
  })

  test('/v1/decision is an ordinary path of the backend', async () => {
    const [edge, backend] = await limited(9)
    expect(await ask(edge.port, 'POST', '/v1/decision', [], 'x')).toMatchObject({ status: 200, body: 'hello' })
    expect(backend.only.url).toBe('/v1/decision')
  })

  test('a body above EDGE_MAX_BODY_BYTES that a token budget must read: 413, and the backend is not touched', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, {
      env: { EDGE_MAX_BODY_BYTES: '1000' },
      bundle: bundle(1, policy('llm', { selector: { pathPrefix: '/llm' }, rules: [llmRule('t', [], { tokens_per_minute: 100_000 })] })),
    })
    for (const framing of ['length', 'chunks'] as const) {
      const answer = await upload(edge, framing, '/llm', 'x'.repeat(1001))
      expect([framing, answer.status, ...valuesOf(answer, 'X-Edge-Reason')]).toEqual([framing, 413, 'body_too_large'])
      expect(JSON.parse(answer.body).error).toMatchObject({ code: 'body_too_large', type: 'invalid_request_error' })
    }
    expect(backend.connections).toBe(0)
    for (const framing of ['length', 'chunks'] as const) {
      expect((await upload(edge, framing, '/llm', `"${'x'.repeat(998)}"`)).status).toBe(200)
      expect((await upload(edge, framing, '/other', 'x'.repeat(5000))).status).toBe(200)
    }
    expect(backend.seen).toHaveLength(4)
  })

  test('decisions are counted like those of the decision service', async () => {
    const [edge] = await limited(1)
    await statuses(edge, 3)
    expect(await edge.metric('edge_decisions_total{action="allow",reason="all_rules_passed",policy="p",route="/"}')).toBe(1)
    expect(await edge.metric('edge_decisions_total{action="reject",reason="token_bucket_exceeded",policy="p",route="/"}')).toBe(2)
    expect(await untilLogged(edge, 'reject')).toContainEqual(expect.objectContaining({ event: 'reject', policy: 'p', rule: 'r' }))
  })
})

describe("the backend's own RateLimit fields", () => {
  const THEIRS = [
    'RateLimit-Limit: 7',
    'ratelimit-remaining: 6',
    'RATELIMIT-RESET: 5',
    'RateLimit: "theirs";r=6',
    'RateLimit-Policy: "theirs";q=7',
  ]
  const OTHERS = ['X-RateLimit-Limit: 3', 'Retry-After: 9']
  const ANSWER = `HTTP/1.1 200 OK\r\n${[...THEIRS, ...OTHERS].join('\r\n')}\r\nContent-Length: 2\r\n\r\nok`

  test('give way where ours are there', async () => {
    const edge = await proxying(await RawBackend.saying(ANSWER), {
      clock: new ManualClock(),
      bundle: bundle(1, policy('ours', { rules: [bucketRule('r', [], 2)] })),
    })
    const lines = (await edge.get('/')).rawHeaders
    expect(pairs(lines).filter(([name]) => /^ratelimit/i.test(name))).toEqual([
      ['RateLimit-Limit', '2'],
      ['RateLimit-Remaining', '1'],
      ['RateLimit-Reset', '1'],
      ['RateLimit', '"ours";r=1;t=1'],
    ])
    expect(pairs(lines)).toContainEqual(['X-RateLimit-Limit', '3'])
    expect(pairs(lines)).toContainEqual(['Retry-After', '9'])
  })

  test('stay as they are where no enforcing rule applied', async () => {
    const edge = await proxying(await RawBackend.saying(ANSWER), {
      bundle: bundle(1, policy('p', { selector: { pathPrefix: '/other' }, rules: [bucketRule('ours', [], 2)] })),
    })
    const lines = pairs((await edge.get('/')).rawHeaders).map((pair) => pair.join(': '))
    expect(lines).toEqual(expect.arrayContaining([...THEIRS, ...OTHERS]))
  })

  test('and everything else of it: a shadow policy changes no byte of an answer, nor of a request', async () => {
    const shadow = policy('s', { mode: 'shadow', rules: [bucketRule('s', [], 1, 0.001), llmRule('l', [], { tokens_per_minute: 1 })] })
    const body = '{"model":"m","messages":[{"role":"user","content":"hello, world"}],"max_tokens":50}'
    const request = `POST /v1/chat HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nX-A: \xe9\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    const backend = await RawBackend.saying(`${ANSWER}`.replace('200 OK', '200 All \xe9 Right\r\nDate: today'))
    const texts: string[] = []
    for (const policies of [[], [shadow]]) {
      const edge = await proxying(backend, { bundle: bundle(1, ...policies) })
      for (let i = 0; i < 3; i++) {
        const client = RawClient.connect(edge.port)
        client.send(request)
        await client.sees('\r\n\r\nok')
        texts.push(client.received)
      }
    }
    expect(new Set(texts).size).toBe(1)
    expect(new Set(backend.received.split(/(?=POST )/)).size).toBe(1)
    expect(backend.heads).toBe(6)
  })
})

async function limited(burst: number, clock = new ManualClock()): Promise<[Edge, HttpBackend]> {
  const backend = await HttpBackend.start()
  return [await proxying(backend, { clock, bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], burst)] })) }), backend]
}

async function statuses(edge: Edge, times: number): Promise<number[]> {
  const found: number[] = []
  for (let i = 0; i < times; i++) found.push((await edge.get('/')).status)
  return found
}

/** Uploads on a connection of its own. */
function upload(edge: Edge, framing: 'length' | 'chunks', path: string, body: string): Promise<RawAnswer> {
  const framed =
    framing === 'length' ? `Content-Length: ${body.length}\r\n\r\n${body}` : `Transfer-Encoding: chunked\r\n\r\n${inChunks(body)}`
  return askRaw(edge.port, `POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${framed}`)
}
