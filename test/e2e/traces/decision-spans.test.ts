import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { authorization, checkRequest } from '../../support/grpc/ext-authz.ts'
import { rateLimitService } from '../../support/grpc/rate-limit.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { askThrough, HTTP_DOORS, questionBytes } from '../../support/service/doors.ts'
import { callerSpan } from '../../support/traces/trace-contexts.ts'
import { fieldsOf, spansOf, traced } from '../../support/traces/traced-edge.ts'

const SERVER = 2

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

  test('comes by gRPC: the span of the call is nearer than that of the request', async () => {
    const domain = policy('limits', { selector: { domain: 'd' }, rules: [bucketRule('users', ['descriptor:user'], 1)] })
    const [edge, receiver] = await traced({ EDGE_GRPC_PORT: '0' }, bundle(1, domain))
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
})
