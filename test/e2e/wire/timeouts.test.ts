import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { RunningTime } from '../../support/running-time.ts'
import type { Edge } from '../../support/service/edge.ts'
import { type Owner, running } from '../../support/service/running.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const HEADERS_MS = 300
const REQUEST_MS = 600
const TIMED_OUT = 'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n'
const QUESTION = decisionBytes(original('/')).toString('latin1')
const NO_BODY = decisionBytes(original('/', ['Content-Length', '1000']))
const LIVEZ = 'GET /livez HTTP/1.1\r\nHost: edge\r\n\r\n'

describe.concurrent('a head that takes too long gets 408, and its connection ends', () => {
  test.for([
    ['on a connection that never sends a byte', '', 0],
    ['on the fast wire', QUESTION.slice(0, 60), 0],
    ['on the fast wire, after an answer', QUESTION + QUESTION.slice(0, 60), 1],
    ['on a connection handed over in the middle of its first head', `${LIVEZ.slice(0, -2)}X-A: b`, 0],
    ['on a connection handed over, after an answer', LIVEZ + LIVEZ.slice(0, -2), 1],
    ['on a connection that began on the fast wire and was handed over', QUESTION + LIVEZ + QUESTION.slice(0, 60), 2],
  ] as const)('%s', async ([_what, bytes, answers], t) => {
    const edge = await start(t)
    const time = new RunningTime(HEADERS_MS, t)
    const client = RawClient.connect(edge.port, t)
    client.send(bytes)
    const received = await client.closed()
    expect(time.isUp).toBe(true)
    expect(received.endsWith(TIMED_OUT)).toBe(true)
    expect(statusesIn(received)).toEqual([...Array(answers).fill(200), 408])
  })

  test.for([
    ['on the fast wire', QUESTION],
    ['on a connection handed over', LIVEZ],
  ] as const)('%s, however steadily it drips', async ([_what, head], t) => {
    const edge = await start(t)
    const client = RawClient.connect(edge.port, t)
    let sent = 0
    // The last byte is never sent.
    const drip = setInterval(() => client.socket.writable && sent < head.length - 1 && client.send(head[sent++]!), 15)
    const received = await client.closed()
    clearInterval(drip)
    expect(received).toBe(TIMED_OUT)
  })

  test('on the admin port', async (t) => {
    const edge = await start(t, { EDGE_ADMIN_PORT: '0' })
    expect(await RawClient.connect(edge.adminPort, t).closed()).toBe(TIMED_OUT)
  })
})

describe.concurrent('a connection', () => {
  test('on which a body never comes ends, too', async (t) => {
    const edge = await start(t)
    const time = new RunningTime(REQUEST_MS, t)
    const client = RawClient.connect(edge.port, t)
    client.send(NO_BODY)
    const received = await client.closed()
    expect(time.isUp).toBe(true)
    expect(statusesIn(received)[0]).toBe(200)
  })

  test('that asks now and then lives on', async (t) => {
    const edge = await start(t)
    const client = RawClient.connect(edge.port, t)
    let asked = 0
    // Two of them, one after the other, are cut for taking too long.
    for (let cut = 0; cut < 2; cut++) {
      const slow = RawClient.connect(edge.port, t)
      slow.send(NO_BODY)
      while (!slow.isClosed) {
        client.send(QUESTION)
        asked++
        await until(() => statusesIn(client.received).length === asked)
      }
    }
    expect(statusesIn(client.received)).toEqual(Array(asked).fill(200))
  })

  test.for([
    ['on the fast wire', QUESTION],
    ['handed over', LIVEZ],
  ] as const)('that is idle %s ends without a word, not before the time that Keep-Alive names', async ([_what, request], t) => {
    const edge = await start(t, { EDGE_KEEPALIVE_MS: '1000' })
    const client = RawClient.connect(edge.port, t)
    client.send(request)
    await client.sees('Keep-Alive: timeout=1\r\n')
    const time = new RunningTime(1000, t)
    const received = await client.closed()
    expect(time.isUp).toBe(true)
    expect(statusesIn(received)).toEqual([200])
  })
})

function start(owner: Owner, env: Readonly<Record<string, string>> = {}): Promise<Edge> {
  return running(
    {
      bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 100_000)] })),
      env: { EDGE_HEADERS_TIMEOUT_MS: String(HEADERS_MS), EDGE_REQUEST_TIMEOUT_MS: String(REQUEST_MS), ...env },
    },
    owner,
  )
}

function statusesIn(received: string): number[] {
  return readAnswers(received).map(({ status }) => status)
}
