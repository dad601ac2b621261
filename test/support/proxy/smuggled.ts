import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import { Edge } from '../service/edge.ts'
import { until } from '../until.ts'
import { answerHello, HttpBackend } from './backend.ts'
import { answerBytes, proxyOptions, RawClient, readAnswer, statusesIn, valuesOf } from './proxy.ts'
import { HIDDEN } from './two-downstreams/smuggling-vectors.ts'

/** A request within the body of another, framed in both ways. */
export const INNER = 'GET /hidden HTTP/1.1\r\nHost: b\r\n\r\n'
export const CHUNKED = `Transfer-Encoding: chunked\r\n\r\n${INNER.length.toString(16)}\r\n${INNER}\r\n0\r\n\r\n`
export const COUNTED = `Content-Length: ${INNER.length}\r\n\r\n${INNER}`

interface Proxy {
  readonly backend: HttpBackend
  readonly edge: Edge
}

/** One for all tests of a file, each of which finds the backend as if it were new. */
export function oneProxy(): Proxy {
  const proxy = {} as { backend: HttpBackend; edge: Edge }
  beforeAll(async () => {
    proxy.backend = await HttpBackend.listen()
    proxy.edge = await Edge.start(proxyOptions(proxy.backend))
  })
  afterAll(async () => {
    await proxy.edge.stop()
    await proxy.backend.close()
  })
  beforeEach(() => {
    proxy.backend.seen.length = 0
    proxy.backend.handler = answerHello
  })
  return proxy
}

export async function expectRefused({ edge, backend }: Proxy, bytes: string): Promise<void> {
  const refusedBefore = await edge.metric('edge_refused_requests_total{reason="bad_request"}')
  const received = await answerBytes(edge.port, bytes)
  expect(statusesIn(received)).toEqual([400])
  const answer = readAnswer(received)
  expect(valuesOf(answer, 'X-Edge-Reason')).toEqual(['bad_request'])
  expect(valuesOf(answer, 'Connection')).toEqual(['close'])
  expect(valuesOf(answer, 'Content-Type')).toEqual(['application/json'])
  expect(JSON.parse(answer.body).error).toMatchObject({ type: 'invalid_request_error', code: 'bad_request' })
  // Whatever came behind it would have been sent by now: the next request is.
  expect((await edge.get('/after')).status).toBe(200)
  expect(backend.seen.map(({ url }) => url)).toEqual(['/after'])
  expect(await edge.metric('edge_refused_requests_total{reason="bad_request"}')).toBe(refusedBefore + 1)
}

/** What looks like a request in a body stays there. */
export async function expectOneRequest({ edge, backend }: Proxy, method: string, framed: string): Promise<void> {
  const client = RawClient.connect(edge.port)
  client.send(`${method} /outer HTTP/1.1\r\nHost: a\r\n${framed}GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
  await client.closed()
  expect(statusesIn(client.received)).toEqual([200, 200])
  expect(backend.seen.map(({ url }) => url).sort()).toEqual(['/next', '/outer'])
  const outer = backend.seen.find(({ url }) => url === '/outer')!
  expect((await outer.body()).toString()).toBe(INNER)
}

export async function expectBrokenOff({ edge, backend }: Proxy, chunks: string): Promise<void> {
  const received = await answerBytes(edge.port, `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}${HIDDEN}`)
  expect(statusesIn(received).filter((status) => status !== 400)).toEqual([])
  await until(async () => (await edge.metric('edge_proxy_open_requests')) === 0)
  for (const seen of backend.seen) {
    expect(seen.url).toBe('/')
    await expect(seen.body()).rejects.toThrow()
  }
  expect((await edge.get('/after')).status).toBe(200)
  expect(backend.seen.map(({ url }) => url)).not.toContain('/hidden')
}
