import { describe, expect, test } from 'vitest'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { named, routing, saying } from '../../support/proxy/routed.ts'
import { ask, type Fields } from '../../support/service/http.ts'
import { OtlpReceiver, type ReceivedSpan } from '../../support/traces/otlp-receiver.ts'
import { closeTracesPatiently } from '../../support/traces/patient-traces.ts'
import { callerSpan } from '../../support/traces/trace-contexts.ts'

const SERVER = 2
const CLIENT = 3
const ERROR = 2
const NOWHERE = { url: 'http://127.0.0.1:1' }
const JSON_TYPE = ['Content-Type', 'application/json'] as const

const shown = ({ attributes, status }: ReceivedSpan): unknown => [
  attributes['edge.backend'],
  attributes['edge.attempt'],
  attributes['http.response.status_code'],
  attributes['error.type'],
  attributes['gen_ai.request.model'],
  status.code,
]

describe('a traced request with a route', () => {
  test('has a span for each attempt, with its backend, number, model and outcome; its own says which one answered', async () => {
    closeTracesPatiently()
    const receiver = await OtlpReceiver.start()
    const [failing, b] = [await HttpBackend.start(saying('', 503)), await named('b')]
    const routes = [
      {
        match: { 'llm:model': 'asked' },
        backends: [{ name: 'gone' }],
        fallback: [{ name: 'failing' }, { name: 'b', model: 'sent' }],
        retry: { on: ['connect', '5xx'], attempts: 2 },
      },
    ]
    const edge = await routing({ gone: NOWHERE, failing, b }, routes, { env: receiver.env })
    const caller = callerSpan()
    const fields: Fields = [['traceparent', caller.traceparent], JSON_TYPE]
    expect((await ask(edge.port, 'POST', '/v1/chat/completions', fields, '{"model":"asked","messages":[]}')).status).toBe(200)
    await edge.stop()
    const calls = receiver.spans.filter(({ kind }) => kind === CLIENT).sort((one, other) => one.startMs - other.startMs)
    expect(calls.map(shown)).toEqual([
      ['gone', 1, undefined, 'backend_refused', 'asked', ERROR],
      ['failing', 2, 503, '503', 'asked', ERROR],
      ['b', 3, 200, undefined, 'sent', 0],
    ])
    const [request] = receiver.spans.filter(({ kind }) => kind === SERVER)
    expect(request!.status.code).toBe(0)
    expect(request!.attributes).toMatchObject({
      'edge.backend': 'b',
      'edge.attempts': 3,
      'http.response.status_code': 200,
      'gen_ai.request.model': 'asked',
    })
    expect(request!.attributes).not.toHaveProperty('error.type')
    for (const call of calls) expect([call.traceId, call.parentSpanId]).toEqual([caller.traceId, request!.spanId])
    const seen = [failing, b].map(({ only }) => only.headers['traceparent'])
    expect(seen).toEqual(calls.slice(1).map(({ spanId }) => `00-${caller.traceId}-${spanId}-01`))
  })

  test('whose last answer is an error has that one, and whose backends are all away says that none answered', async () => {
    closeTracesPatiently()
    const receiver = await OtlpReceiver.start()
    const [a, b] = [await HttpBackend.start(saying('', 500)), await HttpBackend.start(saying('', 503))]
    const retry = { on: ['connect', '5xx'], attempts: 1 }
    const routes = [
      { selector: { pathPrefix: '/away' }, backends: [{ name: 'gone' }] },
      { backends: [{ name: 'a' }], fallback: [{ name: 'b' }], retry },
    ]
    const edge = await routing({ gone: NOWHERE, a, b }, routes, { env: receiver.env })
    const traced = (): Fields => [['traceparent', callerSpan().traceparent]]
    expect((await ask(edge.port, 'GET', '/x', traced())).status).toBe(503)
    expect((await ask(edge.port, 'GET', '/away', traced())).status).toBe(502)
    await edge.stop()
    const requests = receiver.spans.filter(({ kind }) => kind === SERVER).sort((one, other) => one.startMs - other.startMs)
    expect(requests.map(({ attributes }) => attributes)).toMatchObject([
      { 'edge.backend': 'b', 'edge.attempts': 2, 'http.response.status_code': 503, 'error.type': '503' },
      { 'edge.attempts': 1, 'http.response.status_code': 502, 'error.type': 'backend_refused' },
    ])
    expect(requests[1]!.attributes).not.toHaveProperty('edge.backend')
  })
})
