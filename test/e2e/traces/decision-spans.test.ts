import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { running } from '../../support/service/running.ts'
import { OtlpReceiver } from '../../support/traces/otlp-receiver.ts'
import { callerSpan } from '../../support/traces/trace-contexts.ts'

const SERVER = 2

test('a decision that its caller traces is a span below that of the caller', async () => {
  const receiver = await OtlpReceiver.start()
  const edge = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-key'], 1)] })), env: receiver.env })
  const caller = callerSpan()
  const beforeMs = Date.now()
  await edge.decide({
    uri: '/a/../b?token=secret',
    fields: [
      ['traceparent', caller.traceparent],
      ['X-Key', 'the-caller'],
    ],
  })
  const [span] = await receiver.trace(caller.traceId, 1)
  expect(span).toMatchObject({ name: 'decision', kind: SERVER, parentSpanId: caller.spanId, status: { code: 0 } })
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
})
