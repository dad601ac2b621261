import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, concurrencyRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { askRaw, pairs, proxying, RawClient, valuesOf } from '../../support/proxy/proxy.ts'
import type { Edge, EdgeOptions } from '../../support/service/edge.ts'
import { ask, type Fields } from '../../support/service/http.ts'
import { OtlpReceiver, type ReceivedSpan } from '../../support/traces/otlp-receiver.ts'
import { closeTracesPatiently } from '../../support/traces/patient-traces.ts'
import { callerSpan } from '../../support/traces/trace-contexts.ts'
import { until } from '../../support/until.ts'

const INTERNAL = 1
const SERVER = 2
const CLIENT = 3
const ERROR = 2

interface Spans {
  readonly server: ReceivedSpan
  readonly decision: ReceivedSpan | undefined
  readonly client: ReceivedSpan | undefined
  readonly all: readonly ReceivedSpan[]
}

async function traced(backend: { readonly url: string }, options: EdgeOptions = {}): Promise<[Edge, OtlpReceiver]> {
  closeTracesPatiently()
  const receiver = await OtlpReceiver.start()
  return [await proxying(backend, { ...options, env: { ...receiver.env, ...options.env } }), receiver]
}

/** A service that stops sends all spans that it has. */
async function spansOf([edge, receiver]: [Edge, OtlpReceiver]): Promise<Spans> {
  await edge.stop()
  const all = receiver.spans
  const ofKind = (kind: number): ReceivedSpan | undefined => all.find((span) => span.kind === kind)
  return { server: ofKind(SERVER)!, decision: ofKind(INTERNAL), client: ofKind(CLIENT), all }
}

function traceFieldsSeenBy(backend: HttpBackend): string[] {
  const fields = pairs(backend.only.rawHeaders)
  return [...valuesOf({ fields }, 'traceparent'), ...valuesOf({ fields }, 'tracestate')]
}

describe('a proxied request that its caller traces', () => {
  test('and that waits has one decision, the last one, and says how long it waited', async () => {
    let release: (() => void) | undefined
    const backend = await HttpBackend.start((req, res) => {
      if (req.url === '/first') release = () => void res.end('first')
      else res.end('second')
    })
    const rule = { ...concurrencyRule('r', ['header:x-key'], 1), wait_seconds: 60 }
    const [edge, receiver] = await traced(backend, { bundle: bundle(1, policy('p', { rules: [rule] })) })
    const caller = callerSpan()
    const first = ask(edge.port, 'GET', '/first', [['X-Key', 'a']])
    await until(() => release !== undefined)
    const fields: Fields = [
      ['X-Key', 'a'],
      ['traceparent', caller.traceparent],
    ]
    const second = ask(edge.port, 'GET', '/second', fields)
    // It is the first in line, so it is decided again and again.
    await until(async () => (await edge.metric('edge_waiting_requests')) === 1)
    release!()
    expect([(await first).body, (await second).body]).toEqual(['first', 'second'])
    const { server, decision, all } = await spansOf([edge, receiver])
    expect(all.map(({ kind }) => kind).sort()).toEqual([INTERNAL, SERVER, CLIENT])
    expect(server.attributes).toMatchObject({ 'edge.action': 'allow', 'edge.wait_ms': expect.any(Number) })
    expect(server.attributes['edge.wait_ms']).toBeGreaterThan(0)
    expect(decision!.attributes).toMatchObject({ 'edge.action': 'allow', 'edge.reason': 'all_rules_passed' })
  })

  test('has a span below that of the caller, and below it those of the decision and of the call to the backend', async () => {
    const backend = await HttpBackend.start()
    const [edge, receiver] = await traced(backend, { bundle: bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-key'], 9)] })) })
    const caller = callerSpan()
    const state: Fields = [
      ['tracestate', 'vendor=a'],
      ['Tracestate', 'other=b'],
    ]
    await ask(edge.port, 'POST', '/x?token=a-secret', [['traceparent', caller.traceparent], ...state, ['X-Key', 'a-value']], 'a-body')
    const { server, decision, client, all } = await spansOf([edge, receiver])
    expect(all).toHaveLength(3)
    for (const span of all) expect([span.traceId, span.status.code]).toEqual([caller.traceId, 0])
    expect(server).toMatchObject({ name: 'POST', parentSpanId: caller.spanId })
    expect(decision).toMatchObject({ name: 'decision', parentSpanId: server.spanId })
    expect(client).toMatchObject({ name: 'POST', parentSpanId: server.spanId, events: [{ name: 'response_head' }] })
    const decided = { 'edge.action': 'allow', 'edge.reason': 'all_rules_passed', 'edge.policy': 'p', 'edge.rule': 'r' }
    const request = { 'http.request.method': 'POST', 'url.path': '/x', 'http.response.status_code': 200 }
    expect(server.attributes).toEqual({ ...decided, ...request, 'url.scheme': 'http' })
    expect(decision!.attributes).toEqual({ ...decided, 'edge.door': 'proxy', 'http.response.status_code': 200 })
    expect(client!.attributes).toEqual({ ...request, 'server.address': '127.0.0.1', 'server.port': backend.port })
    expect(traceFieldsSeenBy(backend)).toEqual([`00-${caller.traceId}-${client!.spanId}-01`, 'vendor=a', 'other=b'])
    expect(server.startMs).toBeLessThanOrEqual(decision!.startMs)
    expect(decision!.endMs).toBeLessThanOrEqual(client!.startMs)
    expect(client!.endMs).toBeLessThanOrEqual(server.endMs)
    expect(receiver.exports.map(({ body }) => body).join()).not.toMatch(/a-secret|a-value|a-body/)
  })

  test('and rejected has no call to the backend; the reject is no error', async () => {
    const backend = await HttpBackend.start()
    const rules = [bucketRule('r', [], 1, 0.001)]
    const [edge, receiver] = await traced(backend, { bundle: bundle(1, policy('p', { rules })) })
    await ask(edge.port, 'GET', '/')
    const { traceparent } = callerSpan()
    expect((await ask(edge.port, 'GET', '/', [['traceparent', traceparent]])).status).toBe(429)
    const { server, all } = await spansOf([edge, receiver])
    expect(all).toHaveLength(2)
    expect(server).toMatchObject({
      status: { code: 0 },
      attributes: { 'edge.action': 'reject', 'edge.reason': 'token_bucket_exceeded', 'http.response.status_code': 429 },
    })
  })

  test('and answered with an error of the backend has it on both spans, from 500 on', async () => {
    const backend = await HttpBackend.start((req, res) => void res.writeHead(Number(req.url!.slice(1))).end())
    const [edge, receiver] = await traced(backend)
    const callers = [callerSpan(), callerSpan()] as const
    await ask(edge.port, 'GET', '/404', [['traceparent', callers[0].traceparent]])
    await ask(edge.port, 'GET', '/503', [['traceparent', callers[1].traceparent]])
    await edge.stop()
    const statuses = receiver.spans
      .filter(({ kind }) => kind !== INTERNAL)
      .map(({ kind, status, attributes }) => [kind, attributes['http.response.status_code'], status.code, attributes['error.type']])
    expect(new Set(statuses)).toEqual(
      new Set([
        [CLIENT, 404, ERROR, '404'],
        [SERVER, 404, 0, undefined],
        [CLIENT, 503, ERROR, '503'],
        [SERVER, 503, ERROR, '503'],
      ]),
    )
  })

  test('whose backend is not there', async () => {
    const gone = await HttpBackend.listen()
    const { url } = gone
    await gone.close()
    const traces = await traced({ url })
    await ask(traces[0].port, 'GET', '/', [['traceparent', callerSpan().traceparent]])
    const { server, client } = await spansOf(traces)
    expect(server).toMatchObject({
      status: { code: ERROR },
      attributes: { 'error.type': 'backend_refused', 'http.response.status_code': 502 },
    })
    expect(client).toMatchObject({ status: { code: ERROR }, attributes: { 'error.type': 'backend_refused' } })
    expect(client!.events).toMatchObject([{ name: 'retry', attributes: { 'error.type': 'backend_refused' } }])
  })

  test('whose response breaks off', async () => {
    const backend = await RawBackend.start(({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf', () => socket.destroy())
    })
    const traces = await traced(backend)
    const client = RawClient.connect(traces[0].port)
    client.send(`GET / HTTP/1.1\r\nHost: a\r\ntraceparent: ${callerSpan().traceparent}\r\n\r\n`)
    await client.closed()
    const { server } = await spansOf(traces)
    expect(server).toMatchObject({ status: { code: ERROR }, attributes: { 'error.type': 'backend_reset' } })
  })

  test('whose client goes away ends with it', async () => {
    const backend = await HttpBackend.start((_req, res) => void res.write('first'))
    const traces = await traced(backend)
    const client = RawClient.connect(traces[0].port)
    client.send(`GET / HTTP/1.1\r\nHost: a\r\ntraceparent: ${callerSpan().traceparent}\r\n\r\n`)
    await client.sees('first')
    client.socket.resetAndDestroy()
    await until(() => backend.only.isAborted)
    const { server, client: call } = await spansOf(traces)
    expect(server).toMatchObject({ status: { code: 0 }, events: [{ name: 'client_gone' }] })
    expect(call!.endMs).toBe(server.endMs)
  })

  test('that is upgraded ends with the upgrade, while its tunnel goes on', async () => {
    const backend = await HttpBackend.start()
    backend.server.on('upgrade', (_req, socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
      socket.pipe(socket)
    })
    const [edge, receiver] = await traced(backend)
    const { traceparent, traceId } = callerSpan()
    const client = RawClient.connect(edge.port)
    client.send(`GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\ntraceparent: ${traceparent}\r\n\r\n`)
    await client.sees('101 ')
    const spans = await receiver.trace(traceId, 3)
    expect(spans.find(({ kind }) => kind === SERVER)!.attributes['http.response.status_code']).toBe(101)
    client.send('still there')
    await client.sees('still there')
    client.socket.destroy()
    await once(client.socket, 'close')
  })

  test('that cannot be decided has its reason', async () => {
    const backend = await HttpBackend.start()
    const rules = [bucketRule('r', ['header:x-key'], 1)]
    const traces = await traced(backend, { bundle: bundle(1, policy('p', { rules })) })
    const { traceparent } = callerSpan()
    const answer = await askRaw(
      traces[0].port,
      `GET / HTTP/1.1\r\nHost: a\r\nX-Key: 1\r\nX-Key: 2\r\ntraceparent: ${traceparent}\r\nConnection: close\r\n\r\n`,
    )
    expect(answer.status).toBe(400)
    const { server } = await spansOf(traces)
    expect(server.attributes).toMatchObject({
      'edge.action': 'refuse',
      'edge.reason': 'repeated_descriptor',
      'http.response.status_code': 400,
    })
  })
})

describe('what the backend gets of a trace context', () => {
  test('of a request that is not traced: the bytes that came, or nothing', async () => {
    const backend = await HttpBackend.start()
    const [edge, receiver] = await traced(backend)
    const { traceparent } = callerSpan('00')
    const fields: Fields = [
      ['traceparent', traceparent],
      ['tracestate', ' odd=1 '],
    ]
    await ask(edge.port, 'GET', '/', fields)
    expect(traceFieldsSeenBy(backend)).toEqual([traceparent, 'odd=1'])
    backend.seen.length = 0
    await ask(edge.port, 'GET', '/')
    expect(traceFieldsSeenBy(backend)).toEqual([])
    backend.seen.length = 0
    await ask(edge.port, 'GET', '/', [['traceparent', 'no such thing']])
    expect(traceFieldsSeenBy(backend)).toEqual(['no such thing'])
    expect((await spansOf([edge, receiver])).all).toEqual([])
  })

  test('of a request that the caller does not trace and we do: its trace, traced from here on, and its tracestate', async () => {
    const backend = await HttpBackend.start()
    const traces = await traced(backend, { env: { EDGE_OTLP_SAMPLE: '1' } })
    const caller = callerSpan('00')
    const fields: Fields = [
      ['traceparent', caller.traceparent],
      ['tracestate', 'vendor=a'],
    ]
    await ask(traces[0].port, 'GET', '/', fields)
    const { server, client } = await spansOf(traces)
    expect(server).toMatchObject({ traceId: caller.traceId, parentSpanId: caller.spanId })
    expect(traceFieldsSeenBy(backend)).toEqual([`00-${caller.traceId}-${client!.spanId}-01`, 'vendor=a'])
  })

  test.each([
    ['is not valid', [['traceparent', `${callerSpan().traceparent}0`]]],
    ['comes twice', [['traceparent', callerSpan().traceparent], ['traceparent', callerSpan().traceparent]]], // biome-ignore format: one case a line
    ['has no id', [['traceparent', `00-${'0'.repeat(32)}-${'1'.repeat(16)}-01`]]],
    ['is large', [['traceparent', `00-${'a'.repeat(12_000)}`]]],
  ] as [string, Fields][])(
    'a traceparent that %s is replaced by that of a new trace, and tracestate goes with it',
    async (_how, fields) => {
      const backend = await HttpBackend.start()
      const traces = await traced(backend, { env: { EDGE_OTLP_SAMPLE: '1' } })
      await ask(traces[0].port, 'GET', '/', [...fields, ['tracestate', 'of=another']])
      const { server, client } = await spansOf(traces)
      expect(server.parentSpanId).toBeUndefined()
      expect(traceFieldsSeenBy(backend)).toEqual([`00-${server.traceId}-${client!.spanId}-01`])
    },
  )

  test('one that Connection names is no field of the backend, and ours still is', async () => {
    const backend = await HttpBackend.start()
    const traces = await traced(backend)
    const { traceparent, traceId } = callerSpan()
    await askRaw(traces[0].port, `GET / HTTP/1.1\r\nHost: a\r\ntraceparent: ${traceparent}\r\nConnection: close, traceparent\r\n\r\n`)
    const { client } = await spansOf(traces)
    expect(traceFieldsSeenBy(backend)).toEqual([`00-${traceId}-${client!.spanId}-01`])
  })
})
