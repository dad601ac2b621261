import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo, LookupFunction } from 'node:net'
import { createServer as createRawServer } from 'node:net'
import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { type GetRequest, getDocument } from './http-get.ts'

/** For requests that end with it; others have far longer than they need. */
const SHORT_MS = 300
const MAX_BYTES = 1000

test('a document is fetched without asking for compression', async () => {
  const url = await serve(({ headers }, res) =>
    res.end(JSON.stringify([headers['accept-encoding'], headers['user-agent'], headers.accept])),
  )
  expect(JSON.parse(String(await get(url)))).toEqual(['identity', 'edge/test', 'application/json'])
})

test('a body in chunks and one that ends with its connection are read too', async () => {
  const chunked = await serve((_req, res) => {
    res.write('one ')
    res.end('two')
  })
  expect(String(await get(chunked))).toBe('one two')
  const raw = await serveRaw('HTTP/1.1 200 OK\r\n\r\none two')
  expect(String(await get(raw))).toBe('one two')
})

test.each([301, 302, 303, 307, 308])('a redirect (%i) is not followed', async (status) => {
  const paths: string[] = []
  const url = await serve((req, res) => {
    paths.push(req.url!)
    res.writeHead(status, { Location: 'http://169.254.169.254/latest' }).end()
  })
  await expect(get(url)).rejects.toThrow(`it returned ${status}, and redirects are not followed`)
  expect(paths).toEqual(['/'])
})

test.each([204, 206, 304, 401, 404, 500, 503])('%i is no document', async (status) => {
  const url = await serve((_req, res) => res.writeHead(status).end())
  await expect(get(url)).rejects.toThrow(`it returned ${status}`)
})

test.each(['Connection: Upgrade\r\nUpgrade: websocket\r\n', ''])('neither is 101, with the fields %j', async (fields) => {
  const url = await serveRaw(`HTTP/1.1 101 Switching Protocols\r\n${fields}\r\n`)
  await expect(get(url)).rejects.toThrow(/^(?:it returned 101|the connection was closed before the response was complete)$/)
})

test('a header without bound is not read', async () => {
  const url = await serveRaw(`HTTP/1.1 200 OK\r\nX-Long: ${'x'.repeat(100_000)}\r\n\r\n{}`)
  await expect(get(url)).rejects.toThrow('the header of its response is too large')
})

test('a body that is announced too large is not read', async () => {
  const url = await serve((_req, res) => {
    res.writeHead(200, { 'Content-Length': 1_000_000 })
    res.flushHeaders()
  })
  await expect(get(url)).rejects.toThrow(`its body has more than ${MAX_BYTES} bytes`)
})

test('a body without an end is read no further than the largest allowed', async () => {
  const closed = new Promise<void>((resolve) => {
    void serve((_req, res) => {
      const more = (): void => {
        while (res.write('x'.repeat(1000)));
      }
      res.on('drain', more)
      res.on('close', resolve)
      more()
    }).then((url) => expect(get(url)).rejects.toThrow(`its body has more than ${MAX_BYTES} bytes`))
  })
  await closed
})

test('a compressed body is refused before it is read', async () => {
  const url = await serve((_req, res) => res.writeHead(200, { 'Content-Encoding': 'gzip' }).end(gzipSync('x'.repeat(10_000_000))))
  await expect(get(url)).rejects.toThrow('its body is compressed, which the request did not accept')
})

test('a body that comes byte by byte ends with the time for the whole request', async () => {
  const url = await serve((_req, res) => {
    const timer = setInterval(() => res.write('x'), 10)
    res.on('close', () => clearInterval(timer))
  })
  await expect(get(url, { timeoutMs: SHORT_MS })).rejects.toThrow('no complete response within 0.3 s')
})

test('so does a head that does not come, and one that comes byte by byte', async () => {
  await expect(get(await serve(() => {}), { timeoutMs: SHORT_MS })).rejects.toThrow('no complete response within 0.3 s')
  const slow = await serveRaw(undefined)
  await expect(get(slow, { timeoutMs: SHORT_MS })).rejects.toThrow('no complete response within 0.3 s')
})

test('a request that is called off ends at once, and its connection with it', async () => {
  const calledOff = new AbortController()
  const closed = new Promise<void>((resolve) => {
    void serve((_req, res) => {
      res.on('close', resolve)
      calledOff.abort()
    }).then((url) => get(url, { signal: calledOff.signal }).catch(() => {}))
  })
  await closed
})

test('a truncated body is an error', async () => {
  const url = await serveRaw('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf')
  await expect(get(url)).rejects.toThrow('the connection was closed before the response was complete')
})

test('what does not speak HTTP or TLS is said, and nothing of what it sent', async () => {
  const url = await serveRaw('220 secret.example ESMTP\r\n')
  await expect(get(url)).rejects.toThrow(/^it does not use HTTP$/)
  await expect(get(url.replace('http:', 'https:'))).rejects.toThrow(/^it does not use TLS$/)
})

test('nobody listening is said', async () => {
  await expect(get('http://127.0.0.1:1/')).rejects.toThrow('the connection was refused')
})

test.each(['http://169.254.169.254/', 'https://169.254.169.254/', 'https://[fe80::1]/', 'https://[::ffff:169.254.1.1]/'])(
  '%s is not connected to',
  (url) =>
    expect(get(url)).rejects.toThrow('its host is a link-local address, or one of a metadata service, to which edge does not connect'),
)

test.each([[['169.254.169.254']], [['127.0.0.1', '169.254.0.1']], [['::ffff:169.254.0.1']], [['fe80::1%lo']], [['64:ff9b::a9fe:1']]])(
  'a name that resolves to %j is not connected to',
  async (addresses) => {
    const { port } = new URL(await serve((_req, res) => res.end('{}')))
    const problem = 'its host is a link-local address, or one of a metadata service, to which edge does not connect'
    await expect(get(`http://localhost:${port}/`, { lookup: resolvesTo(...addresses) })).rejects.toThrow(problem)
    await expect(get(`https://keys.test:${port}/`, { lookup: resolvesTo(...addresses) })).rejects.toThrow(problem)
  },
)

test('plain HTTP does not leave the machine, whatever localhost resolves to', async () => {
  const { port } = new URL(await serve((_req, res) => res.end('{}')))
  expect(String(await get(`http://localhost:${port}/`, { lookup: resolvesTo('127.0.0.1') }))).toBe('{}')
  const problem = 'its host is not a loopback address, and http:// is allowed to loopback addresses alone'
  await expect(get(`http://localhost:${port}/`, { lookup: resolvesTo('10.0.0.1') })).rejects.toThrow(problem)
  await expect(get(`http://localhost:${port}/`, { lookup: resolvesTo('not an address') })).rejects.toThrow('something that is no address')
})

test('a resolver that hangs ends with the time for the whole request', async () => {
  await expect(get('https://keys.test/', { lookup: () => {}, timeoutMs: SHORT_MS })).rejects.toThrow('no complete response within 0.3 s')
})

test('a name without an address is said', async () => {
  const lookup: LookupFunction = (_name, _options, callback) => {
    callback(Object.assign(new Error('getaddrinfo'), { code: 'ENOTFOUND' }), '', 4)
  }
  await expect(get('https://keys.test/', { lookup })).rejects.toThrow('its host name has no address')
})

function resolvesTo(...addresses: string[]): LookupFunction {
  return (_name, { all }, callback) => {
    const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    if (all === true) callback(null, found)
    else callback(null, found[0]!.address, found[0]!.family)
  }
}

function get(url: string, given: Partial<GetRequest> = {}): Promise<Buffer> {
  const { signal } = new AbortController()
  const fixed = { accept: 'application/json', userAgent: 'edge/test', maxBytes: MAX_BYTES, timeoutMs: 60_000, signal }
  return getDocument({ url: new URL(url), ...fixed, ...given })
}

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

/** Sends the text and closes the connection; without text, a head without an end, byte by byte. */
async function serveRaw(text: string | undefined): Promise<string> {
  const server = createRawServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', () => {})
    if (text !== undefined) return void socket.end(text)
    const timer = setInterval(() => socket.write('H'), 10)
    socket.on('close', () => clearInterval(timer))
    socket.write('HTTP/1.1 200 OK\r\nX-')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}
