import { Agent, request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, askRaw, proxying, RawClient, valuesOf } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { until } from '../../support/until.ts'

const METHODS = ['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'MKCOL', 'REPORT', 'SEARCH', 'M-SEARCH', 'PURGE', 'LINK']

describe('methods', () => {
  test.each(METHODS)('%s', async (method) => {
    const backend = await HttpBackend.start((req, res) => void res.end(req.method))
    const edge = await proxying(backend)
    expect(await ask(edge.port, method, '/a')).toMatchObject({ status: 200, body: method })
    expect(backend.only).toMatchObject({ method, url: '/a' })
  })
})

describe('targets keep their bytes', () => {
  test.each([
    '/',
    '//',
    '//double//slash//',
    '/%61%7e~',
    '/../../etc/passwd',
    '/a%00b',
    '/%',
    '/?',
    '/?a=b&a=c&&=',
    '/a?b?c/../d',
    '/a;v=1,2',
    '/a|b{c}[d]^`"<>\\',
    '/livez/',
    '/x?/livez',
    `/${'long'.repeat(4000)}`,
  ])('%j', async (target) => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    const edge = await proxying(backend)
    const bytes = `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`
    expect((await askRaw(edge.port, bytes)).status).toBe(200)
    expect(backend.received.split('\r\n')[0]).toBe(`GET ${target} HTTP/1.1`)
  })

  test.each([
    ['http://a', '/'],
    ['http://a?b', '/?b'],
    ['HTTPS://A//b/../%2f', '//b/../%2f'],
  ])('the absolute form %s goes on as %s', async (target, path) => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    const edge = await proxying(backend)
    await askRaw(edge.port, `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    expect(backend.received.split('\r\n')[0]).toBe(`GET ${path} HTTP/1.1`)
  })

  test.each([
    ['', '/a', '/a'],
    ['/', '/a', '/a'],
    ['/base/', '/', '/base/'],
    ['/base//', '//a', '/base//a'],
    ['/b%2fc', '/./a', '/b%2fc/./a'],
  ])('base path %j and %s: %s', async (base, target, expected) => {
    const backend = await HttpBackend.start()
    const edge = await proxying({ url: `${backend.url}${base}` })
    expect((await askRaw(edge.port, `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)).status).toBe(200)
    expect(backend.only.url).toBe(expected)
  })
})

describe('answers without a body', () => {
  test('HEAD of a chunked answer: no length is made up', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    const edge = await proxying(backend)
    const received = await answerBytes(edge.port, 'HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect(received).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    expect(received).not.toMatch(/Content-Length/i)
    expect(received.endsWith('\r\n\r\n')).toBe(true)
  })

  test.each([200, 205, 301, 418, 500, 599, 799, 999])('%i with an empty body, its words kept', async (status) => {
    const backend = await RawBackend.saying(`HTTP/1.1 ${status} Words of Its Own\r\nContent-Length: 0\r\n\r\n`)
    const edge = await proxying(backend)
    expect((await askRaw(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')).line).toBe(
      `HTTP/1.1 ${status} Words of Its Own`,
    )
  })

  test.each([
    ['HTTP/1.1 200', 'HTTP/1.1 200 '],
    ['HTTP/1.1 200 ', 'HTTP/1.1 200 '],
    ['HTTP/1.0 200 OK', 'HTTP/1.1 200 OK'],
    ['HTTP/1.1 200 caf\xe9 \xff', 'HTTP/1.1 200 caf\xe9 \xff'],
    ['HTTP/1.1 200 a\tb', 'HTTP/1.1 200 a\tb'],
  ])('the status line %j', async (line, expected) => {
    const edge = await proxying(await RawBackend.saying(`${line}\r\nContent-Length: 0\r\n\r\n`))
    expect((await askRaw(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')).line).toBe(expected)
  })
})

describe('connections', () => {
  test('are as many as requests at once', async () => {
    const backend = await HttpBackend.start(async (_req, res) => {
      await until(() => backend.seen.length === 10)
      res.end()
    })
    const edge = await proxying(backend)
    const answers = await Promise.all(Array.from({ length: 10 }, () => edge.get('/')))
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200))
    expect(new Set(backend.seen.map(({ connection }) => connection)).size).toBe(10)
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
  })

  test.each([
    ['Connection: foo, Close', 'HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 2\r\n\r\nok'],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok'],
    ['Keep-Alive: timeout=1', 'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok'],
    ['bytes behind the answer', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'],
  ])('to the backend are not used again after %s', async (_what, answer) => {
    const backend = await RawBackend.saying(answer)
    const edge = await proxying(backend)
    for (let i = 0; i < 3; i++) expect((await edge.get('/')).body).toBe('ok')
    expect(backend.connections.map(({ heads }) => heads)).toEqual([1, 1, 1])
    await until(() => backend.openConnections === 0)
  })

  test('HTTP/1.0 with keep-alive may be used again', async () => {
    const backend = await RawBackend.saying('HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok')
    const edge = await proxying(backend)
    for (let i = 0; i < 3; i++) expect((await edge.get('/')).body).toBe('ok')
    expect(backend.connections).toHaveLength(1)
  })

  test('an idle one that the backend talks on is dropped, and what it said goes nowhere', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    const edge = await proxying(backend)
    await edge.get('/')
    backend.connections[0]!.socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil')
    await until(() => backend.connections[0]!.isClosed)
    expect((await edge.get('/')).body).toBe('ok')
    expect(backend.connections).toHaveLength(2)
  })

  test('of clients are used again: after answers, rejects and failures alike', async () => {
    const backend = await RawBackend.saying(
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
      'rubbish\r\n\r\n',
      'HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n',
    )
    const edge = await proxying(backend, { clock: new ManualClock(), bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 3)] })) })
    const client = RawClient.connect(edge.port)
    const statuses: number[] = []
    for (let i = 0; i < 6; i++) {
      client.send(i === 1 ? 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi' : 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      const answer = await client.next()
      statuses.push(answer.status)
      expect([answer.status, valuesOf(answer, 'Connection')]).toEqual([answer.status, ['keep-alive']])
    }
    expect(statuses).toEqual([200, 502, 500, 429, 429, 429])
  })

  test('a long pipeline piles nothing up', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error): void => void warnings.push(warning)
    process.on('warning', onWarning)
    const backend = await HttpBackend.start((_req, res) => {
      res.setHeader('Content-Length', 2)
      res.end('ok')
    })
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(50))
    for (let i = 0; i < 50; i++) expect((await client.next()).body).toBe('ok')
    process.off('warning', onWarning)
    expect(warnings).toEqual([])
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
  })

  test('a client with an agent of its own gets them all', async () => {
    const backend = await HttpBackend.start((req, res) => void req.pipe(res))
    const edge = await proxying(backend)
    const agent = new Agent({ keepAlive: true, maxSockets: 4 })
    const bodies = await Promise.all(
      Array.from({ length: 200 }, (_, i) => {
        return new Promise<string>((resolve, reject) => {
          const req = request({ port: edge.port, host: '127.0.0.1', method: 'POST', agent }, (res) => {
            let text = ''
            res.on('data', (chunk: Buffer) => {
              text += chunk.toString()
            })
            res.on('end', () => resolve(text)).on('error', reject)
          })
          req.on('error', reject).end(`body ${i}`)
        })
      }),
    )
    agent.destroy()
    expect(bodies).toEqual(Array.from({ length: 200 }, (_, i) => `body ${i}`))
    expect(backend.connections).toBeLessThanOrEqual(4)
  })
})

describe('Host', () => {
  test.each([[{ EDGE_BACKEND_HOST: 'backend' }, (own: string) => own]] as const)('%j', async (env, expected) => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env })
    await askRaw(edge.port, 'GET / HTTP/1.1\r\nhOST: api.example.com:8443\r\nConnection: close\r\n\r\n')
    const own = `127.0.0.1:${backend.port}`
    expect(backend.only.rawHeaders.slice(0, 2)).toEqual(['Host', expected(own)])
    expect(backend.only.headers['x-forwarded-host']).toBe('api.example.com:8443')
  })
})
