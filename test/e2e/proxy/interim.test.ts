import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { answerBytes, proxying, RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import { until } from '../../support/until.ts'

const LAST = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const GET = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'

describe('interim answers of the backend', () => {
  test.each([
    ['102', 'HTTP/1.1 102 Processing\r\n\r\n', [102, 200]],
    ['103', 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n', [103, 200]],
    [
      'several',
      'HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n',
      [102, 103, 103, 200],
    ],
    ['one that nobody knows', 'HTTP/1.1 199 Surprise\r\n\r\n', [199, 200]],
  ])('%s: pass', async (_what, interim, statuses) => {
    const edge = await proxying(await RawBackend.saying(`${interim}${LAST}`))
    const received = await answerBytes(edge.port, GET)
    expect(statusesIn(received)).toEqual(statuses)
    expect(received.endsWith('\r\n\r\nok')).toBe(true)
  })

  test('a 100 that nobody asked for ends here', async () => {
    const edge = await proxying(await RawBackend.saying(`HTTP/1.1 100 Continue\r\n\r\n${LAST}`))
    expect(statusesIn(await answerBytes(edge.port, GET))).toEqual([200])
  })

  test('come before the answer, when they are said, with their fields and bytes', async () => {
    const backend = await RawBackend.saying(
      'HTTP/1.1 103 Fr\xfch\r\nLink: </\xe9>; rel=preload\r\nConnection: X-Named\r\nX-Named: 1\r\nKeep-Alive: x\r\n\r\n',
    )
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await client.sees('\r\n\r\n')
    expect(client.received).toBe('HTTP/1.1 103 Fr\xfch\r\nLink: </\xe9>; rel=preload\r\nVia: 1.1 edge\r\n\r\n')
    backend.connections[0]!.socket.write(LAST)
    expect(statusesIn(await client.closed())).toEqual([103, 200])
  })

  test("carry no RateLimit fields, the backend's neither: the answer does", async () => {
    const edge = await proxying(await RawBackend.saying(`HTTP/1.1 103 Early Hints\r\nRateLimit-Remaining: 77\r\n\r\n${LAST}`), {
      bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 5)] })),
    })
    const [interim, last] = (await answerBytes(edge.port, GET)).split(/(?=HTTP\/1\.1 200)/)
    expect(interim).not.toContain('RateLimit')
    expect(last).toContain('RateLimit-Remaining: 4\r\n')
  })

  test('are not for HTTP/1.0 clients', async () => {
    const edge = await proxying(await RawBackend.saying(`HTTP/1.1 103 Early Hints\r\n\r\n${LAST}`))
    expect(statusesIn(await answerBytes(edge.port, 'GET / HTTP/1.0\r\n\r\n'))).toEqual([200])
  })

  test('come behind the answers to what the client has asked before', async () => {
    const backend = await HttpBackend.start((req, res) => {
      const end = (): void => void res.setHeader('Content-Length', req.url!.length).end(req.url)
      if (req.url === '/1') end()
      else res.writeEarlyHints({ link: '</a>' }, end)
    })
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n')
    await client.sees('/2')
    expect(statusesIn(client.received)).toEqual([200, 103, 200])
    expect(client.received.split(/(?=HTTP)/)[0]).toMatch(/^HTTP\/1\.1 200 .*\r\n\r\n\/1$/s)
  })

  test('without end are too many', async () => {
    const edge = await proxying(await RawBackend.saying(`${'HTTP/1.1 102 Processing\r\n\r\n'.repeat(200)}${LAST}`))
    const received = await answerBytes(edge.port, GET)
    expect(statusesIn(received).at(-1)).toBe(502)
    expect(received).toContain('X-Edge-Reason: backend_invalid\r\n')
  })
})

describe('a 101 that nobody asked for', () => {
  test.each([
    ['alone', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'],
    ['without fields', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
    ['before an answer', `HTTP/1.1 101 Switching Protocols\r\n\r\n${LAST}`],
    ['after a 103', 'HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n'],
  ])('%s: 502 backend_invalid', async (_what, answer) => {
    const backend = await RawBackend.saying(answer)
    const edge = await proxying(backend)
    const received = await answerBytes(edge.port, GET)
    expect(statusesIn(received).at(-1)).toBe(502)
    expect(received).toContain('X-Edge-Reason: backend_invalid\r\n')
    expect(received).not.toContain(' 101 ')
    await until(() => backend.openConnections === 0)
    expect((await edge.get('/livez')).status).toBe(200)
  })

  test('during an upload: 502', async () => {
    const backend = await RawBackend.saying('HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\n\r\n')
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf')
    await client.sees('backend_invalid')
    expect(statusesIn(client.received)).toEqual([502])
  })
})
