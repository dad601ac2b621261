import { describe, expect, test } from 'vitest'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, askRaw, pairs, proxying, RawClient, readAnswer, valuesOf } from '../../support/proxy/proxy.ts'
import { until } from '../../support/until.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

describe("a request's fields", () => {
  test('keep their spelling, order, repetition and bytes', async () => {
    const lines = [
      'X-First: 1',
      'x-lower: 2',
      'X-UPPER: 3',
      'X-Twice: a',
      'Cookie: a=b; c=d',
      'X-Twice: b',
      'Cookie: e=f',
      'x-TWICE: c',
      'X-Empty:',
      'X-Latin: caf\xe9 \xff',
      'X-Utf8: caf\xc3\xa9 \xf0\x9f\x98\x80',
      "X-!#$%&'*+-.^_`|~: odd",
      'X-Inner:  a  \t b  ',
      'Authorization: Bearer x.y.z',
      'Content-Type: text/plain',
      'User-Agent: test',
      'Accept-Encoding: gzip, br',
      'Accept: */*',
      'Range: bytes=0-1',
      'Referer: http://a/b',
      'Cache-Control: no-cache',
      'X-Edge-Debug: s',
      'constructor: c',
      '__proto__: p',
    ]
    const backend = await RawBackend.saying(OK)
    const edge = await proxying(backend)
    await askRaw(edge.port, `GET / HTTP/1.1\r\nHost: a\r\n${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`)
    const received = backend.received.split('\r\n').slice(2)
    const expected = lines.map((line) => line.replace(/: *(.*?)[ \t]*$/, ': $1').replace(/:$/, ': '))
    expect(received.slice(0, lines.length)).toEqual(expected)
    expect(received.slice(lines.length)).toEqual([
      'X-Forwarded-For: 127.0.0.1',
      'X-Forwarded-Host: a',
      'X-Forwarded-Proto: http',
      'Via: 1.1 edge',
      '',
      '',
    ])
  })

  test('that hold the secret of debug sessions end here, wherever they were sent by mistake', async () => {
    const backend = await RawBackend.saying(OK)
    const edge = await proxying(backend, { env: { EDGE_ADMIN_PORT: '0' } })
    await askRaw(edge.port, 'POST /v1/debug/session HTTP/1.1\r\nHost: a\r\nx-edge-debug-SECRET: s3cret\r\nConnection: close\r\n\r\n')
    expect(backend.received).toContain('POST /v1/debug/session')
    expect(backend.received).not.toMatch(/s3cret/)
  })

  test('that concern the hop end here, and those that Connection names', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    const lines = [
      'Connection: X-Named, keep-alive',
      'connection:x-other ,, TE',
      'X-Named: 1',
      'x-OTHER: 2',
      'X-Kept: 3',
      'Keep-Alive: timeout=5',
      'Proxy-Connection: keep-alive',
      'Proxy-Authorization: Basic eDp5',
      'Proxy-Authenticate: Basic',
      'TE: gzip',
      'Trailer: X-T',
      'Upgrade: foo',
      'HTTP2-Settings: AAMAAABkAAQAAP__',
    ]
    const client = RawClient.connect(edge.port)
    client.send(`GET / HTTP/1.1\r\nHost: a\r\n${lines.join('\r\n')}\r\n\r\n`)
    expect((await client.next()).status).toBe(200)
    const names = pairs(backend.only.rawHeaders).map(([name]) => name)
    expect(names).toEqual(['Host', 'X-Kept', 'X-Forwarded-For', 'X-Forwarded-Host', 'X-Forwarded-Proto', 'Via'])
  })

  test('Connection cannot name away what tells who the client is or where the body ends', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    const connection = 'Connection: close, Host, Content-Length, X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto, Via'
    await askRaw(edge.port, `POST / HTTP/1.1\r\nHost: a\r\n${connection}\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: 3\r\n\r\nabc`)
    expect(backend.only.headers).toMatchObject({
      host: `127.0.0.1:${backend.port}`,
      'content-length': '3',
      'x-forwarded-for': '192.0.2.1, 127.0.0.1',
      'x-forwarded-host': 'a',
      'x-forwarded-proto': 'http',
      via: '1.1 edge',
    })
    expect((await backend.only.body()).toString()).toBe('abc')
  })

  test('TE: trailers is passed on, for trailers are; nothing else of it is', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    await edge.get('/', [
      ['TE', 'gzip;q=0.5, trailers'],
      ['Connection', 'TE, close'],
    ])
    expect(backend.only.headers).toMatchObject({ te: 'trailers', connection: 'TE' })
  })

  test('Via is added to what is there', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nVia: 1.0 inner\r\nContent-Length: 0\r\n\r\n')
    const edge = await proxying(backend)
    const answer = await askRaw(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nVia: 1.0 outer\r\nConnection: close\r\n\r\n')
    expect(backend.received.match(/^via: .*$/gim)).toEqual(['Via: 1.0 outer', 'Via: 1.1 edge'])
    expect(valuesOf(answer, 'Via')).toEqual(['1.0 inner', '1.1 edge'])
  })

  test('Expect is ours to answer, and goes no further', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi')
    await client.sees('hello')
    expect(backend.only.headers).not.toHaveProperty('expect')
  })

  test.each([
    ['edge_dbg=secret', undefined],
    ['edge_dbg=secret; a=b', 'a=b'],
    ['a=b; edge_dbg=secret', 'a=b'],
    ['a=b;edge_dbg=secret;  c=d', 'a=b;  c=d'],
    ['a=edge_dbg; b=c', 'a=edge_dbg; b=c'],
    ['xedge_dbg=1; edge_dbgx=2', 'xedge_dbg=1; edge_dbgx=2'],
    ['edge_admin=secret; edge_dbg=secret', undefined],
    ['a=b; edge_admin=secret; c=d', 'a=b; c=d'],
    ['xedge_admin=1; edge_adminx=2', 'xedge_admin=1; edge_adminx=2'],
    [' edge_dbg = secret ; edge_dbg=again; a=b', 'a=b'],
  ])('Cookie: %s goes on as %s', async (cookie, expected) => {
    const backend = await RawBackend.saying(OK)
    const edge = await proxying(backend)
    await askRaw(edge.port, `GET / HTTP/1.1\r\nHost: a\r\nCookie: ${cookie}\r\nConnection: close\r\n\r\n`)
    expect(/^Cookie: (.*)\r$/m.exec(backend.received)?.[1]).toBe(expected)
  })
})

describe("an answer's fields", () => {
  test('keep their spelling, order, repetition and bytes', async () => {
    const lines = [
      'x-first: 1',
      'Set-Cookie: a=b; Path=/',
      'X-UPPER: 2',
      'set-cookie: c=d',
      'Set-Cookie: e=f',
      'Content-Type: text/plain; charset=latin1',
      'Content-Length: 2',
      'X-Latin: caf\xe9 \xff',
      'X-Utf8: \xf0\x9f\x98\x80',
      'X-Empty: ',
      "X-!#$%&'*+-.^_`|~: odd",
      'WWW-Authenticate: Basic',
      'WWW-Authenticate: Bearer',
      'Date: Thu, 01 Jan 1970 00:00:00 GMT',
      'Server: theirs',
      'Link: </a>; rel=preload, </b>; rel=preload',
      'X-Edgeless: 1',
      'Alt-Svc: h3=":443"',
    ]
    const backend = await RawBackend.saying(`HTTP/1.1 200 OK\r\n${lines.join('\r\n')}\r\n\r\nok`)
    const edge = await proxying(backend)
    const received = await answerBytes(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    const found = received.split('\r\n')
    expect(found.slice(1, 1 + lines.length)).toEqual(lines)
    expect(found.slice(1 + lines.length)).toEqual(['Via: 1.1 edge', 'Connection: close', '', 'ok'])
  })

  test.each([
    ['200 OK', '\r\n'],
    ['429 Too Many Requests', '\r\n'],
    ['103 Early Hints', '\r\nHTTP/1.1 204 No Content\r\n\r\n'],
  ])('are never taken for ours: X-Edge-* of a backend ends here (%s)', async (status, rest) => {
    const theirs = 'X-Edge-Reason: tpm_exceeded\r\nx-edge-debug-policy: theirs\r\nX-EDGE-Anything: theirs\r\nX-Kept: 1\r\n'
    const edge = await proxying(
      await RawBackend.saying(`HTTP/1.1 ${status}\r\n${theirs}${status[0] === '1' ? '' : 'Content-Length: 0\r\n'}${rest}`),
    )
    const received = await answerBytes(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect(received).toContain('X-Kept: 1\r\n')
    expect(received).not.toMatch(/x-edge/i)
  })

  test.each([
    ['UTF-8', 'caf\xc3\xa9.txt'],
    ['Latin-1', 'caf\xe9.txt'],
    ['neither', '\xff\xfe'],
  ])('a file name in %s keeps its bytes, behind a length too', async (_what, name) => {
    const fields = `Content-Length: 2\r\nContent-Disposition: attachment; filename="${name}"\r\n`
    const edge = await proxying(await RawBackend.saying(`HTTP/1.1 200 OK\r\n${fields}\r\nok`))
    const answer = await askRaw(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect(valuesOf(answer, 'Content-Disposition')).toEqual([`attachment; filename="${name}"`])
  })

  test.each([
    ['a body that comes at once', 'ok'],
    ['a body that comes later', ''],
  ])('bytes above ASCII are not encoded twice: %s', async (_when, first) => {
    const head = 'HTTP/1.1 200 gr\xfcn\r\nX-Latin: \xe9\xff\r\nX-Utf8: \xc3\xa9\r\nContent-Length: 2\r\n\r\n'
    const backend = await RawBackend.saying(`${head}${first}`)
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    await client.sees('\r\n\r\n')
    if (first === '') backend.connections[0]!.socket.write('ok')
    const received = await client.closed()
    expect(received).toMatch(/^HTTP\/1\.1 200 gr\xfcn\r\nX-Latin: \xe9\xff\r\nX-Utf8: \xc3\xa9\r\n/)
    expect(received.endsWith('\r\n\r\nok')).toBe(true)
  })

  test('that concern the hop end here, and those that Connection names', async () => {
    const head = [
      'Connection: X-Named, keep-alive',
      'X-Named: 1',
      'X-Kept: 2',
      'Keep-Alive: timeout=55',
      'Proxy-Connection: keep-alive',
      'Proxy-Authenticate: Basic',
      'Upgrade: h2c',
      'TE: x',
      'Trailer: X-T',
      'Content-Length: 2',
    ]
    const backend = await RawBackend.saying(`HTTP/1.1 200 OK\r\n${head.join('\r\n')}\r\n\r\nok`)
    const edge = await proxying(backend)
    const answer = await askRaw(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect(answer.fields.filter(([name]) => name !== 'Date')).toEqual([
      ['X-Kept', '2'],
      ['Content-Length', '2'],
      ['Via', '1.1 edge'],
      ['Connection', 'close'],
    ])
  })

  test('a length that comes twice goes on once', async () => {
    const edge = await proxying(await RawBackend.saying('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok'))
    const answer = await askRaw(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect([valuesOf(answer, 'Content-Length'), answer.body]).toEqual([['2'], 'ok'])
  })

  test('a backend that names the length in Connection cannot unframe its answer', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 200 OK\r\nConnection: Content-Length\r\nContent-Length: 2\r\n\r\nok')
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => /ok(\r\n0\r\n\r\n)?$/.test(client.received))
    const answer = readAnswer(client.received)
    expect([...valuesOf(answer, 'Content-Length'), ...valuesOf(answer, 'Transfer-Encoding')]).toHaveLength(1)
  })

  test('60 KB of them pass', async () => {
    const fields = Array.from({ length: 1200 }, (_, i) => `X-${i}: ${'v'.repeat(40)}`)
    const edge = await proxying(await RawBackend.saying(`HTTP/1.1 200 OK\r\n${fields.join('\r\n')}\r\nContent-Length: 2\r\n\r\nok`))
    const answer = await askRaw(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect(answer.fields.filter(([name]) => name.startsWith('X-')).map((pair) => pair.join(': '))).toEqual(fields)
  })
})
