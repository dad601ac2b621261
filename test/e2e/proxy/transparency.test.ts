import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, askRaw, proxying, RawClient, readAnswer, statusesIn, valuesOf } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const METHODS = ['POST', 'PROPFIND']

describe('methods', () => {
  test.each(METHODS)('%s', async (method) => {
    const backend = await HttpBackend.start((req, res) => void res.end(req.method))
    const edge = await proxying(backend)
    expect(await ask(edge.port, method, '/a')).toMatchObject({ status: 200, body: method })
    expect(backend.only).toMatchObject({ method, url: '/a' })
  })

  test('OPTIONS * is asked of the server as a whole, base path or not', async () => {
    const backend = await HttpBackend.start()
    for (const base of ['', '/base']) {
      const edge = await proxying({ url: `${backend.url}${base}` })
      expect((await ask(edge.port, 'OPTIONS', '*')).status).toBe(200)
      expect(backend.seen.at(-1)).toMatchObject({ method: 'OPTIONS', url: '*' })
    }
  })

  test('CONNECT opens no tunnel: 405, and the backend is not touched', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    const received = await answerBytes(
      edge.port,
      'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n',
    )
    expect(statusesIn(received)).toEqual([405])
    expect((await edge.get('/after')).status).toBe(200)
    expect(backend.seen.map(({ url }) => url)).toEqual(['/after'])
  })
})

describe('targets keep their bytes', () => {
  test.each(['/a%2Fb%2fc', '/a/./b/../c', '/%zz'])('%j', async (target) => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    const edge = await proxying(backend)
    const bytes = `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`
    expect((await askRaw(edge.port, bytes)).status).toBe(200)
    expect(backend.received.split('\r\n')[0]).toBe(`GET ${target} HTTP/1.1`)
  })

  test.each([['http://a/b?c', '/b?c']])('the absolute form %s goes on as %s', async (target, path) => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    const edge = await proxying(backend)
    await askRaw(edge.port, `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    expect(backend.received.split('\r\n')[0]).toBe(`GET ${path} HTTP/1.1`)
  })

  test.each([['/base', '/a?b', '/base/a?b']])('base path %j and %s: %s', async (base, target, expected) => {
    const backend = await HttpBackend.start()
    const edge = await proxying({ url: `${backend.url}${base}` })
    expect((await askRaw(edge.port, `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)).status).toBe(200)
    expect(backend.only.url).toBe(expected)
  })

  test('no target leaves the base path', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying({ url: `${backend.url}/base` })
    const statusOf = async (target: string) =>
      (await askRaw(edge.port, `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)).status
    for (const target of [
      '/../other',
      '/%2e%2E/other',
      '/..%2fother',
      '/v1/../../other',
      '/v1/..;/..;/other',
      '/x%255c..%255cy',
      'http://a/../b',
    ])
      expect([target, await statusOf(target)]).toEqual([target, 400])
    expect(backend.seen).toEqual([])
    expect((await untilLogged(edge, 'refused')).at(-1)).toMatchObject({ reason: 'bad_request' })
    for (const target of ['/main..next', '/a?b=/../c', '/.well-known/x']) expect([target, await statusOf(target)]).toEqual([target, 200])
  })

  test('policies see the path without the base path', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(
      { url: `${backend.url}/base` },
      { bundle: bundle(1, policy('p', { selector: { pathPrefix: '/a' }, rules: [bucketRule('r', [], 1)] })) },
    )
    expect((await edge.get('/a')).headers['ratelimit-remaining']).toBe('0')
    expect((await edge.get('/base/a')).headers).not.toHaveProperty('ratelimit')
  })
})

describe('answers without a body', () => {
  test('HEAD has the length of what GET would bring, and no body', async () => {
    const backend = await HttpBackend.start((_req, res) => void res.writeHead(200, { 'Content-Length': 1234 }).end())
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n')
    await client.sees('\r\n\r\n')
    expect(client.received).toMatch(/\r\nContent-Length: 1234\r\n/i)
    client.received = ''
    backend.handler = (_req, res) => void res.writeHead(200, { 'Content-Length': 2 }).end('ok')
    client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    expect((await client.next()).body).toBe('ok')
    expect(backend.connections).toBe(1)
  })

  test('204 goes on without the length that some backends give it', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 204 No Content\r\nKeep-Alive: timeout=600\r\nContent-Length: 0\r\nX-A: b\r\n\r\n')
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    for (let i = 0; i < 2; i++) {
      client.send('DELETE / HTTP/1.1\r\nHost: a\r\n\r\n')
      const answer = await client.next()
      expect([answer.status, valuesOf(answer, 'Content-Length'), valuesOf(answer, 'Transfer-Encoding'), valuesOf(answer, 'X-A')]).toEqual([
        204,
        [],
        [],
        ['b'],
      ])
    }
    expect(backend.connections).toHaveLength(1)
  })

  test('304 keeps its fields, the length of what it stands for too', async () => {
    const backend = await RawBackend.saying(
      'HTTP/1.1 304 Not Modified\r\nKeep-Alive: timeout=600\r\nETag: "x"\r\nContent-Length: 77\r\n\r\n',
    )
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    for (let i = 0; i < 2; i++) {
      client.send('GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: "x"\r\n\r\n')
      const answer = await client.next()
      expect([answer.status, valuesOf(answer, 'ETag'), valuesOf(answer, 'Content-Length'), valuesOf(answer, 'Transfer-Encoding')]).toEqual([
        304,
        ['"x"'],
        ['77'],
        [],
      ])
    }
    expect(backend.received).toContain('If-None-Match: "x"\r\n')
    expect(backend.connections).toHaveLength(1)
  })

  test.each([404])('%i with an empty body, its words kept', async (status) => {
    const backend = await RawBackend.saying(`HTTP/1.1 ${status} Words of Its Own\r\nContent-Length: 0\r\n\r\n`)
    const edge = await proxying(backend)
    expect((await askRaw(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')).line).toBe(
      `HTTP/1.1 ${status} Words of Its Own`,
    )
  })
})

describe('connections', () => {
  test('to the backend are used again, whoever the client is', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    for (let i = 0; i < 5; i++) expect((await ask(edge.port, 'POST', '/', [], 'x')).status).toBe(200)
    expect(backend.seen.map(({ connection }) => connection)).toEqual([1, 1, 1, 1, 1])
    expect(await edge.metric('edge_backend_connections')).toBe(1)
  })

  test.each([['Connection: close', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok']])(
    'to the backend are not used again after %s',
    async (_what, answer) => {
      const backend = await RawBackend.saying(answer)
      const edge = await proxying(backend)
      for (let i = 0; i < 3; i++) expect((await edge.get('/')).body).toBe('ok')
      expect(backend.connections.map(({ heads }) => heads)).toEqual([1, 1, 1])
      await until(() => backend.openConnections === 0)
    },
  )

  test('pipelined answers come in order', async () => {
    const backend = await HttpBackend.start((req, res) => {
      res.setHeader('Content-Length', req.url!.length)
      res.end(req.url)
    })
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(['/1', '/22', '/333'].map((path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`).join(''))
    expect([await client.next(), await client.next(), await client.next()].map(({ body }) => body)).toEqual(['/1', '/22', '/333'])
  })

  test('of HTTP/1.0 clients get an answer that they understand', async () => {
    const backend = await RawBackend.saying(
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n',
    )
    const edge = await proxying(backend)
    const received = await answerBytes(edge.port, 'GET / HTTP/1.0\r\n\r\n')
    expect(received).not.toMatch(/Transfer-Encoding|Trailer|X-T/i)
    expect(readAnswer(received)).toMatchObject({ status: 200, body: 'ok' })
    expect(backend.received).toMatch(/^GET \/ HTTP\/1\.1\r\nHost: 127\.0\.0\.1:\d+\r\n/)
  })
})

describe('Host', () => {
  test.each([
    [{}, (own: string) => own],
    [{ EDGE_BACKEND_HOST: 'client' }, () => 'api.example.com:8443'],
  ] as const)('%j', async (env, expected) => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env })
    await askRaw(edge.port, 'GET / HTTP/1.1\r\nhOST: api.example.com:8443\r\nConnection: close\r\n\r\n')
    const own = `127.0.0.1:${backend.port}`
    expect(backend.only.rawHeaders.slice(0, 2)).toEqual(['Host', expected(own)])
    expect(backend.only.headers['x-forwarded-host']).toBe('api.example.com:8443')
  })

  test('EDGE_BACKEND_HOST=client and a client without one: its own', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env: { EDGE_BACKEND_HOST: 'client' } })
    await askRaw(edge.port, 'GET / HTTP/1.0\r\n\r\n')
    expect(backend.only.headers.host).toBe(`127.0.0.1:${backend.port}`)
    expect(backend.only.headers).not.toHaveProperty('x-forwarded-host')
  })
})
