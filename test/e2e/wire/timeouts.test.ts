import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { RunningTime } from '../../support/running-time.ts'
import type { Edge } from '../../support/service/edge.ts'
import { heldTime } from '../../support/service/held-time.ts'
import { type Owner, running } from '../../support/service/running.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const HEADERS_MS = 300
const REQUEST_MS = 600
/** Longer than any machine stands still. */
const LONG = '60000'
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
    await unlessHeldUp(async () => {
      const time = new RunningTime(HEADERS_MS, t)
      const client = RawClient.connect(edge.port, t)
      client.send(bytes)
      const received = await client.closed()
      expect(time.isUp).toBe(true)
      return received.endsWith(TIMED_OUT) && String(statusesIn(received)) === String([...Array(answers).fill(200), 408])
    })
  })

  test.for([
    ['on the fast wire', QUESTION],
    ['on a connection handed over', LIVEZ],
  ] as const)('%s, however steadily it drips', async ([_what, head], t) => {
    const edge = await start(t)
    await unlessHeldUp(async () => {
      const client = RawClient.connect(edge.port, t)
      let sent = 0
      // The last byte is never sent.
      const drip = setInterval(() => client.socket.writable && sent < head.length - 1 && client.send(head[sent++]!), 15)
      const received = await client.closed()
      clearInterval(drip)
      return received === TIMED_OUT
    })
  })

  test('on the admin port', async (t) => {
    const edge = await start(t, { EDGE_ADMIN_PORT: '0' })
    expect(await RawClient.connect(edge.adminPort, t).closed()).toBe(TIMED_OUT)
  })
})

describe.concurrent('a connection', () => {
  test('on which a body never comes ends, too', async (t) => {
    const edge = await start(t)
    await unlessHeldUp(async () => {
      const time = new RunningTime(HEADERS_MS, t)
      const client = RawClient.connect(edge.port, t)
      client.send(NO_BODY)
      const received = await client.closed()
      expect(time.isUp).toBe(true)
      return statusesIn(received)[0] === 200
    })
  })

  test.for([
    ['on the fast wire', QUESTION],
    ['handed over', LIVEZ],
  ] as const)('that is idle %s ends without a word, not before the time that Keep-Alive names', async ([_what, request], t) => {
    const edge = await start(t, { EDGE_KEEPALIVE_MS: '1000', EDGE_HEADERS_TIMEOUT_MS: LONG, EDGE_REQUEST_TIMEOUT_MS: LONG })
    const time = new RunningTime(1000, t)
    const client = RawClient.connect(edge.port, t)
    client.send(request)
    const received = await client.closed()
    expect(received).toContain('Keep-Alive: timeout=1\r\n')
    expect(time.isUp).toBe(true)
    expect(statusesIn(received)).toEqual([200])
  })
})

describe('with time that the test holds', () => {
  const time = heldTime()

  test('a connection that asks now and then lives on', async (t) => {
    const edge = await start(t, { EDGE_HEADERS_TIMEOUT_MS: LONG, EDGE_REQUEST_TIMEOUT_MS: LONG, EDGE_KEEPALIVE_MS: LONG })
    const client = RawClient.connect(edge.port, t)
    // Four times as long as any of them allows for one request, or between two.
    for (let asked = 1; asked <= 6; asked++) {
      client.send(QUESTION)
      await until(() => statusesIn(client.received).length === asked)
      time.pass(0.7 * Number(LONG))
    }
    expect(statusesIn(client.received)).toEqual(Array(6).fill(200))
  })
})

/** On a machine that stands still, time may be up before what came was read: then it is tried again. */
async function unlessHeldUp(hasHappened: () => Promise<boolean>): Promise<void> {
  await until(hasHappened)
}

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
