import { hostname } from 'node:os'
import { describe, expect, test } from 'vitest'
import { blockRule, bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { authorization, checkRequest } from '../../support/grpc/ext-authz.ts'
import { rateLimitService } from '../../support/grpc/rate-limit.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { askThrough, HTTP_DOORS, questionBytes } from '../../support/service/doors.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Fields } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'
import { OtlpReceiver, type ReceivedSpan } from '../../support/traces/otlp-receiver.ts'
import { closeTracesPatiently } from '../../support/traces/patient-traces.ts'
import { type CallerSpan, callerSpan } from '../../support/traces/trace-contexts.ts'

const SERVER = 2
const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-key'], 1, 0.001)] }))

async function traced(env: Readonly<Record<string, string>> = {}, published: object = BUNDLE): Promise<[Edge, OtlpReceiver]> {
  closeTracesPatiently()
  const receiver = await OtlpReceiver.start()
  return [await running({ bundle: published, env: { ...receiver.env, ...env } }), receiver]
}

/** A service that stops sends all spans that it has. */
async function spansOf([edge, receiver]: [Edge, OtlpReceiver]): Promise<ReceivedSpan[]> {
  await edge.stop()
  return receiver.spans
}

function fieldsOf({ traceparent }: CallerSpan): Fields {
  return [
    ['traceparent', traceparent],
    ['X-Key', 'a-value-of-a-caller'],
  ]
}

describe('a decision that its caller traces', () => {
  test('is a span below that of the caller, and tells nothing of its values', async () => {
    const [edge, receiver] = await traced()
    const caller = callerSpan()
    const beforeMs = Date.now()
    await edge.decide({ uri: '/a/../b?token=a-secret', host: 'a-host', fields: fieldsOf(caller) })
    const [span, ...others] = await spansOf([edge, receiver])
    expect(others).toEqual([])
    const { traceId, spanId: parentSpanId } = caller
    expect(span).toMatchObject({ name: 'decision', kind: SERVER, traceId, parentSpanId, status: { code: 0 } })
    expect(span!.attributes).toEqual({
      'edge.door': 'decision',
      'http.request.method': 'GET',
      'url.path': '/b',
      'edge.action': 'allow',
      'edge.reason': 'all_rules_passed',
      'edge.policy': 'p',
      'edge.rule': 'r',
      'http.response.status_code': 200,
    })
    expect(span!.startMs).toBeGreaterThanOrEqual(beforeMs)
    expect(span!.endMs).toBeGreaterThanOrEqual(span!.startMs)
    expect(span!.endMs).toBeLessThanOrEqual(Date.now() + 1)
    expect(receiver.exports[0]).toMatchObject({ path: '/v1/traces', headers: { 'content-type': 'application/json' } })
    expect(receiver.exports[0]!.body).not.toMatch(/a-value|a-secret|a-host/)
  })

  test('names the instance', async () => {
    const [edge, receiver] = await traced()
    await edge.decide({ fields: fieldsOf(callerSpan()) })
    const [span] = await spansOf([edge, receiver])
    expect(span!.resource).toEqual({
      'service.name': 'edge',
      'service.version': expect.stringMatching(/^\d+\.\d+\.\d+/),
      'service.instance.id': `${hostname()}:${process.pid}`,
    })
  })

  test('and is rejected is no error; one that cannot be decided here is', async () => {
    const rejecting = await traced()
    for (let i = 0; i < 2; i++) await rejecting[0].decide({ fields: fieldsOf(callerSpan()) })
    const [, reject] = await spansOf(rejecting)
    expect(reject).toMatchObject({
      status: { code: 0 },
      attributes: { 'edge.action': 'reject', 'edge.reason': 'token_bucket_exceeded', 'edge.rule': 'r', 'http.response.status_code': 429 },
    })
    const blocking = await traced({}, bundle(1, policy('b', { rules: [blockRule('all')] })))
    await blocking[0].decide({ fields: fieldsOf(callerSpan()) })
    expect((await spansOf(blocking))[0]).toMatchObject({
      status: { code: 0 },
      attributes: { 'edge.reason': 'blocked', 'http.response.status_code': 403 },
    })
    closeTracesPatiently()
    const receiver = await OtlpReceiver.start()
    const empty = await running({ env: receiver.env })
    await empty.decide({ fields: fieldsOf(callerSpan()) })
    expect((await spansOf([empty, receiver]))[0]).toMatchObject({
      status: { code: 2 },
      attributes: { 'edge.action': 'refuse', 'edge.reason': 'no_bundle_loaded', 'error.type': 'no_bundle_loaded' },
    })
  })

  test.each(HTTP_DOORS)('comes through $name, on either wire', async (door) => {
    const [edge, receiver] = await traced()
    const callers = [callerSpan(), callerSpan()] as const
    const asked = { method: 'PUT', uri: '/x?q=1', host: 'h' }
    const client = RawClient.connect(edge.port)
    client.send(questionBytes(door, { ...asked, fields: fieldsOf(callers[0]) }))
    await client.next()
    client.socket.destroy()
    await askThrough(door, edge.port, { ...asked, fields: fieldsOf(callers[1]) })
    const spans = await spansOf([edge, receiver])
    expect(spans.map(({ parentSpanId }) => parentSpanId)).toEqual(callers.map(({ spanId }) => spanId))
    for (const { attributes } of spans)
      expect(attributes).toMatchObject({ 'edge.door': door.name, 'http.request.method': 'PUT', 'url.path': '/x' })
  })

  test.each(['own', 'node'])('comes by gRPC on the %s layer: the span of the call is nearer than that of the request', async (wire) => {
    const domain = policy('limits', { selector: { domain: 'd' }, rules: [bucketRule('users', ['descriptor:user'], 1)] })
    const [edge, receiver] = await traced({ EDGE_GRPC_PORT: '0', EDGE_GRPC_WIRE: wire }, bundle(1, domain))
    const [call, request, limits] = [callerSpan(), callerSpan(), callerSpan()]
    const checking = authorization(edge.grpcPort)
    const message = checkRequest({ path: '/x?q=1', headers: { traceparent: request.traceparent } })
    await checking.call('Check', message, [['traceparent', call.traceparent]])
    await checking.call('Check', message)
    const descriptors = [{ entries: [{ key: 'user', value: 'a-value-of-a-caller' }] }]
    await rateLimitService(edge.grpcPort).call('ShouldRateLimit', { domain: 'd', descriptors }, [['traceparent', limits.traceparent]])
    const spans = await spansOf([edge, receiver])
    expect(spans.map(({ parentSpanId, attributes }) => [parentSpanId, attributes['edge.door'], attributes['edge.rule']])).toEqual([
      [call.spanId, 'ext_authz_grpc', undefined],
      [request.spanId, 'ext_authz_grpc', undefined],
      [limits.spanId, 'rate_limit', 'users'],
    ])
    expect(receiver.exports.map(({ body }) => body).join()).not.toContain('a-value')
  })
})

describe('which decisions are traced', () => {
  test('those that the caller does not trace by the share, as part of its trace', async () => {
    const callers = [callerSpan('00'), callerSpan('02')]
    for (const [share, expected] of [
      ['1', callers],
      ['0', []],
    ] as const) {
      // biome-ignore format: a pair
      const [edge, receiver] = await traced({ EDGE_OTLP_SAMPLE: share })
      for (const caller of callers) await edge.decide({ fields: fieldsOf(caller) })
      const parents = (await spansOf([edge, receiver])).map(({ traceId, parentSpanId }) => [traceId, parentSpanId])
      expect(parents).toEqual(expected.map(({ traceId, spanId }) => [traceId, spanId]))
    }
  })

  test('those without a valid traceparent, or with two, by the share too: they begin a trace', async () => {
    const [edge, receiver] = await traced({ EDGE_OTLP_SAMPLE: '1' })
    const { traceparent, traceId } = callerSpan()
    await edge.decide()
    await edge.decide({ fields: [['traceparent', `${traceparent}-x`]] })
    await edge.decide({ fields: [['traceparent', traceparent.toUpperCase().replace(/01$/, 'zz')]] })
    const twice: Fields = [
      ['traceparent', traceparent],
      ['Traceparent', traceparent],
    ]
    await edge.decide({ fields: twice })
    const spans = await spansOf([edge, receiver])
    expect(spans).toHaveLength(4)
    for (const span of spans) expect([span.parentSpanId, span.traceId === traceId]).toEqual([undefined, false])
    expect(new Set(spans.map((span) => span.traceId)).size).toBe(4)
  })

  test('none by a share of 0', async () => {
    const [edge, receiver] = await traced()
    await edge.decideTimes(20)
    expect(await spansOf([edge, receiver])).toEqual([])
    expect(receiver.exports).toEqual([])
  })
})
