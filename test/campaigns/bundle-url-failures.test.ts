import { createServer } from 'node:net'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { BundleServer, type Respond } from '../support/bundles/bundle-server.ts'
import { fetching, fetchingFirst, known, knownYaml, limit, logged, reloads, urlEnv } from '../support/bundles/bundle-url.ts'
import { bundle } from '../support/bundles/bundles.ts'
import { serving } from '../support/service/running.ts'
import { until } from '../support/until.ts'

const HUGE = 16 * 1024 * 1024 + 1

/** Each with an answer that is no newer bundle, what it counts as, and what the log says of it. */
const FAILURES: Readonly<Record<string, readonly [respond: Respond, result: 'refused' | 'unreadable', said: RegExp]>> = {
  'hangs up': [(req) => void req.socket.destroy(), 'unreadable', /^the connection was closed/],
  'answers 500': [(_req, res) => void res.writeHead(500).end(known(2)), 'unreadable', /^it returned 500$/],
  'answers 204': [(_req, res) => void res.writeHead(204).end(), 'unreadable', /^it returned 204$/],
  'answers 206': [(_req, res) => void res.writeHead(206, { 'Content-Range': 'bytes 0-1/2' }).end('{}'), 'unreadable', /^it returned 206$/],
  'answers 304, unasked': [(_req, res) => void res.writeHead(304).end(), 'unreadable', /^it returned 304$/],
  'answers 401': [(_req, res) => void res.writeHead(401).end(), 'unreadable', /^it returned 401: EDGE_CONFIG_TOKEN is not set$/],
  'redirects for ever': [
    (req, res) => void res.writeHead(302, { Location: `${req.url}x` }).end(),
    'unreadable',
    /^it redirects more than 5 times$/,
  ],
  'redirects to itself': [
    (req, res) => void res.writeHead(307, { Location: req.url }).end(),
    'unreadable',
    /^it redirects more than 5 times$/,
  ],
  'redirects to nowhere': [(_req, res) => void res.writeHead(302).end(), 'unreadable', /^it redirects without a valid Location$/],
  'redirects to a file': [
    (_req, res) => void res.writeHead(302, { Location: 'file:///etc/passwd' }).end(),
    'unreadable',
    /^it redirects from http: to file:$/,
  ],
  'redirects to a URL with a password': [
    (req, res) => void res.writeHead(302, { Location: `http://u:p@${req.headers.host}/` }).end(),
    'unreadable',
    /^it redirects to a URL with a user or a password$/,
  ],
  'sends an HTML page': [
    (_req, res) => sendWhole(res, 'text/html; charset=utf-8', '<!DOCTYPE html><title>Sign in</title>'),
    'refused',
    /^it is an HTML page, not a bundle: /,
  ],
  'sends an HTML page as JSON': [
    (_req, res) => sendWhole(res, 'application/json', '\n<html><body>'),
    'refused',
    /^it is an HTML page, not a bundle: /,
  ],
  'sends a picture': [
    (_req, res) => sendWhole(res, 'image/png', Buffer.from('89504e470d0a1a0a', 'hex')),
    'refused',
    /^it is not valid UTF-8$/,
  ],
  'sends another JSON document': [
    (_req, res) => sendWhole(res, 'application/json', '{"ok":true}'),
    'refused',
    /^bundle_version: expected /,
  ],
  'sends nothing': [(_req, res) => sendWhole(res, 'application/json', ''), 'refused', /^it is empty$/],
  'sends an older version': [
    (_req, res) => sendWhole(res, 'application/json', JSON.stringify(bundle(0))),
    'refused',
    /^bundle_version: expected a version above the active one \(1\), got 0\./,
  ],
  'sends other content under the same version': [
    (_req, res) => sendWhole(res, 'application/json', `${known(1)} `),
    'refused',
    /^bundle_version: expected a version above the active one \(1\), got 1\./,
  ],
  'sends less than it promised': [
    (_req, res) => {
      const body = knownYaml(2)
      res.writeHead(200, { 'Content-Type': 'application/yaml', 'Content-Length': Buffer.byteLength(body) + 20 })
      res.write(body, () => res.destroy())
    },
    'unreadable',
    /^the connection was closed before the response was complete$/,
  ],
  'breaks off between chunks': [
    (_req, res) => {
      res.writeHead(200, { 'Content-Type': 'application/yaml' })
      res.write(knownYaml(2), () => res.destroy())
    },
    'unreadable',
    /^the connection was closed before the response was complete$/,
  ],
  'sends a body that ends with its connection': [
    (req) => void req.socket.end(`HTTP/1.1 200 OK\r\nContent-Type: application/yaml\r\nConnection: close\r\n\r\n${knownYaml(2)}`),
    'unreadable',
    /^its body has neither Content-Length nor chunks, so a truncated one could not be detected$/,
  ],
  'sends a body in one piece and calls that a coding': [
    (req) => void req.socket.end(`HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nConnection: close\r\n\r\n${knownYaml(2)}`),
    'unreadable',
    /^its body has neither Content-Length nor chunks, so a truncated one could not be detected$/,
  ],
  'sends a body whose chunks are not the last coding': [
    (req) => void req.socket.end(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, x\r\nConnection: close\r\n\r\n${knownYaml(2)}`),
    'unreadable',
    /^its body has neither Content-Length nor chunks, so a truncated one could not be detected$/,
  ],
  'compresses unasked': [
    (_req, res) => {
      const body = gzipSync(known(2))
      res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip', 'Content-Length': body.length }).end(body)
    },
    'unreadable',
    /^its body is compressed, which the request did not accept$/,
  ],
  'promises too much': [
    (_req, res) => void res.writeHead(200, { 'Content-Length': HUGE }).write('{'),
    'unreadable',
    /^its body has more than 16777216 bytes$/,
  ],
  'sends too much in chunks': [
    (_req, res) => void res.writeHead(200, { 'Content-Type': 'application/json' }).end(Buffer.alloc(HUGE, ' ')),
    'unreadable',
    /^its body has more than 16777216 bytes$/,
  ],
  'speaks another protocol': [(req) => void req.socket.end('SSH-2.0-OpenSSH_9.2\r\n'), 'unreadable', /^it does not use HTTP$/],
  'speaks TLS': [
    (req) => void req.socket.end(Buffer.from('15030300020246', 'hex')),
    'unreadable',
    /^it uses TLS: should the URL be https:\/\/\?$/,
  ],
}

function sendWhole(res: Parameters<Respond>[1], type: string, body: string | Buffer): void {
  res.writeHead(200, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body) }).end(body)
}

describe.concurrent('a source that', () => {
  test.for(Object.entries(FAILURES))(
    '%s: the last good bundle stays, it is said once and counted each time, and ends',
    async (failure, t) => {
      const [, [respond, result, said]] = failure
      const { edge, source } = await fetchingFirst(t)
      const event = `bundle_${result}`
      source.respond = respond
      const entry = await logged(edge, event)
      expect(entry).toMatchObject({
        url: source.url,
        level: result === 'refused' ? 50 : 40,
        msg: expect.stringContaining('version 1 stays'),
      })
      expect(entry['reason'] ?? (entry['problems'] as string[])[0]).toMatch(said)
      await until(async () => (await reloads(edge, result)) >= 3)
      expect(edge.log.filter((line) => line['event'] === event)).toHaveLength(1)
      expect(await limit(edge)).toBe('11')
      expect(JSON.parse((await edge.get('/readyz')).body)).toMatchObject({ status: 'ready', policy_version: '1' })

      const seen = edge.log.length
      source.publish(known(1))
      await logged(edge, 'bundle_unchanged', seen)
      source.publish(known(2))
      await logged(edge, 'bundle_applied', seen)
      expect(await limit(edge)).toBe('22')
    },
  )

  test('fails in one way and then in another: both are said', async (t) => {
    const { edge, source } = await fetchingFirst(t)
    source.respond = (_req, res) => void res.writeHead(500).end()
    expect(await logged(edge, 'bundle_unreadable')).toMatchObject({ reason: 'it returned 500' })
    const seen = edge.log.length
    source.respond = (_req, res) => void res.writeHead(503).end()
    expect(await logged(edge, 'bundle_unreadable', seen)).toMatchObject({ reason: 'it returned 503' })
  })

  test('is down: it is asked again until it is back', async (t) => {
    // Nobody else binds a port of this address, so that it is still there when the source comes back.
    const source = await BundleServer.start(t, undefined, '127.9.8.6')
    source.publish(known(1))
    const edge = await fetching(source.url, {}, t)
    const { hostname, port } = new URL(source.origin)
    source.stop()
    // A poll that is on its way when it stops breaks off first.
    await until(() => edge.log.some(({ reason }) => reason === 'the connection was refused'))
    expect(await limit(edge)).toBe('11')
    const seen = edge.log.length
    const body = known(2)
    const back = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => {
        socket.end(
          `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
        )
      })
    })
    await new Promise<void>((resolve) => back.listen(Number(port), hostname, resolve))
    t.onTestFinished(() => void back.close())
    await logged(edge, 'bundle_applied', seen)
    expect(await limit(edge)).toBe('22')
  })

  test('has a name that does not exist: live, not ready, and the reason is in words', async (t) => {
    const edge = await fetching('http://no-such-host.invalid/bundle', {}, t)
    const { reason } = await logged(edge, 'bundle_unreadable')
    expect(reason).toMatch(/^its host name (?:has no address|could not be looked up)$/)
    expect((await edge.get('/livez')).body).toBe('ok')
    expect((await edge.get('/readyz')).status).toBe(503)
  })

  test.for([
    [
      'does not speak TLS',
      (source: BundleServer) => source.url.replace('http:', 'https:'),
      'it does not use TLS: should the URL be http://?',
    ],
  ] as const)('%s: the reason is in words', async ([_what, urlOf, reason], t) => {
    const edge = await fetching(urlOf(await BundleServer.start(t)), {}, t)
    expect(await logged(edge, 'bundle_unreadable')).toMatchObject({ reason })
  })

  test('has nothing good at the start: the greeting says what it had', async (t) => {
    const source = await BundleServer.start(t)
    source.respond = (_req, res) => void res.writeHead(500).end()
    // An admin port makes it patient with its source.
    const env = urlEnv(source.url, { EDGE_ADMIN_PORT: '0' })
    const failing = await serving(env, [], t)
    expect(failing.stdout).toContain(`none yet; every request gets 503 until there is one\n          ${source.url}: it returned 500\n`)
    source.publish('{}')
    const refusing = await serving(env, [], t)
    expect(refusing.stdout).toContain(`${source.url}: it was refused; the log says why\n`)
  })

  test('takes its time holds up the start for a second, and no longer', async (t) => {
    const source = await BundleServer.start(t)
    let release = (): void => {}
    source.respond = (_req, res) => {
      release = () => sendWhole(res, 'application/json', known(1))
    }
    const cli = await serving(urlEnv(source.url), [], t)
    expect(cli.stdout).toContain(`${source.url}: it has not been read yet`)
    await until(() => source.requests.length === 1)
    release()
    await until(() => cli.logged('bundle_applied').length === 1)
  })
})
