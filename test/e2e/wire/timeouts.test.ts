import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { running } from '../../support/service/running.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const HEADERS_MS = 300
const REQUEST_MS = 600
const TIMED_OUT = 'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n'
const QUESTION = decisionBytes(original('/')).toString('latin1')
const LIVEZ = 'GET /livez HTTP/1.1\r\nHost: edge\r\n\r\n'

describe('a head that takes too long gets 408, and its connection ends', () => {
  test.each([
    ['on a connection that never sends a byte', '', 0],
    ['on the fast wire', QUESTION.slice(0, 60), 0],
    ['on the fast wire, after an answer', QUESTION + QUESTION.slice(0, 60), 1],
    ['on a connection handed over in the middle of its first head', `${LIVEZ.slice(0, -2)}X-A: b`, 0],
    ['on a connection handed over, after an answer', LIVEZ + LIVEZ.slice(0, -2), 1],
    ['on a connection that began on the fast wire and was handed over', QUESTION + LIVEZ + QUESTION.slice(0, 60), 2],
  ])('%s', async (_what, bytes, answers) => {
    const edge = await start()
    const beganMs = performance.now()
    const client = RawClient.connect(edge.port)
    client.send(bytes)
    const received = await client.closed()
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(HEADERS_MS)
    expect(received.endsWith(TIMED_OUT)).toBe(true)
    expect(statusesIn(received)).toEqual([...Array(answers).fill(200), 408])
  })

  test.each([
    ['on the fast wire', QUESTION],
    ['on a connection handed over', LIVEZ],
  ])('%s, however steadily it drips', async (_what, head) => {
    const edge = await start()
    const client = RawClient.connect(edge.port)
    let sent = 0
    // The last byte is never sent.
    const drip = setInterval(() => client.socket.writable && sent < head.length - 1 && client.send(head[sent++]!), 15)
    const received = await client.closed()
    clearInterval(drip)
    expect(received).toBe(TIMED_OUT)
  })

  test('on the admin port', async () => {
    const edge = await start({ EDGE_ADMIN_PORT: '0' })
    expect(await RawClient.connect(edge.service.adminPort!).closed()).toBe(TIMED_OUT)
  })
})

test('a body that never comes ends its connection, too', async () => {
  const edge = await start()
  const beganMs = performance.now()
  const client = RawClient.connect(edge.port)
  client.send(decisionBytes(original('/', ['Content-Length', '1000'])))
  const received = await client.closed()
  expect(performance.now() - beganMs).toBeGreaterThanOrEqual(REQUEST_MS)
  expect(statusesIn(received)[0]).toBe(200)
})

test('a connection that asks now and then lives on', async () => {
  const edge = await start()
  const client = RawClient.connect(edge.port)
  const beganMs = performance.now()
  let asked = 0
  while (performance.now() - beganMs < 2 * REQUEST_MS) {
    client.send(QUESTION)
    asked++
    await until(() => statusesIn(client.received).length === asked)
  }
  expect(statusesIn(client.received)).toEqual(Array(asked).fill(200))
})

test.each([
  ['on the fast wire', QUESTION],
  ['on a connection handed over', LIVEZ],
])('%s an idle connection ends without a word, not before the time that Keep-Alive names', async (_what, request) => {
  const edge = await start({ EDGE_KEEPALIVE_MS: '1000' })
  const client = RawClient.connect(edge.port)
  client.send(request)
  await client.sees('Keep-Alive: timeout=1\r\n')
  const answeredMs = performance.now()
  const received = await client.closed()
  expect(performance.now() - answeredMs).toBeGreaterThanOrEqual(1000)
  expect(statusesIn(received)).toEqual([200])
})

function start(env: Readonly<Record<string, string>> = {}): Promise<Edge> {
  return running({
    bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 100_000)] })),
    env: { EDGE_HEADERS_TIMEOUT_MS: String(HEADERS_MS), EDGE_REQUEST_TIMEOUT_MS: String(REQUEST_MS), ...env },
  })
}

function statusesIn(received: string): number[] {
  return readAnswers(received).map(({ status }) => status)
}
