import { hostname } from 'node:os'
import { describe, expect, test } from 'vitest'
import { blockRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Fields } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'
import { OtlpReceiver } from '../../support/traces/otlp-receiver.ts'
import { closeTracesPatiently } from '../../support/traces/patient-traces.ts'
import { callerSpan } from '../../support/traces/trace-contexts.ts'
import { fieldsOf, spansOf, traced } from '../../support/traces/traced-edge.ts'

describe('a decision that its caller traces', () => {
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
})

describe('which decisions are traced', () => {
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
