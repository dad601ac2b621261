import { isSpanContextValid, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anyText } from '../../../test/support/random/any-text.ts'
import { REPEATED } from '../../request/view.ts'
import { sampledParent } from './tracing.ts'

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c'
const SPAN_ID = 'b7ad6b7169203331'

describe('a request that its caller traces is always traced', () => {
  test.each([
    `00-${TRACE_ID}-${SPAN_ID}-01`,
    `00-${TRACE_ID}-${SPAN_ID}-03`,
    `00-${TRACE_ID}-${SPAN_ID}-ff`,
    // A later version may have more fields.
    `cc-${TRACE_ID}-${SPAN_ID}-01`,
    `cc-${TRACE_ID}-${SPAN_ID}-01-what-the-future-will-be-like`,
  ])('%s', (traceparent) => {
    const parent = trace.getSpanContext(sampledParent(traceparent, 0)!)
    expect(parent).toEqual({ traceId: TRACE_ID, spanId: SPAN_ID, traceFlags: 1, isRemote: true })
  })
})

test.each(['00', '02', 'fe'])('a request that its caller does not trace is traced by the share, below the caller: flags %s', (flags) => {
  const traceparent = `00-${TRACE_ID}-${SPAN_ID}-${flags}`
  const parent = trace.getSpanContext(sampledParent(traceparent, 1)!)
  expect(parent).toEqual({ traceId: TRACE_ID, spanId: SPAN_ID, traceFlags: 1, isRemote: true })
  expect(sampledParent(traceparent, 0)).toBeUndefined()
})

describe('a request without a valid traceparent begins a trace, by the share', () => {
  test.each([
    undefined,
    REPEATED,
    '',
    `00-${TRACE_ID}-${SPAN_ID}-01-`,
    `00-${TRACE_ID}-${SPAN_ID}-01-x`,
    `cc-${TRACE_ID}-${SPAN_ID}-01.x`,
    `ff-${TRACE_ID}-${SPAN_ID}-01`,
    `00-${TRACE_ID.toUpperCase()}-${SPAN_ID}-01`,
    `00-${'0'.repeat(32)}-${SPAN_ID}-01`,
    `00-${TRACE_ID}-${'0'.repeat(16)}-01`,
    `00-${TRACE_ID}-${SPAN_ID}-1`,
    `00-${TRACE_ID}-${SPAN_ID}-0x`,
    `00-${TRACE_ID}-${SPAN_ID}-01, 00-${TRACE_ID}-${SPAN_ID}-01`,
    '-'.repeat(60_000),
    `cc-${TRACE_ID}-${SPAN_ID}-01${'\n-'.repeat(30_000)}`,
  ])('%s', (traceparent) => {
    expect(sampledParent(traceparent, 1)).toBe(ROOT_CONTEXT)
    expect(sampledParent(traceparent, 0)).toBeUndefined()
  })
})

test('whatever comes, there is a valid parent or none', () => {
  const hex = fc.constantFrom(...'0123456789abcdefABCDEFgx')
  const text = (length: number): fc.Arbitrary<string> => fc.string({ unit: hex, minLength: length - 1, maxLength: length + 1 })
  const parts = fc.tuple(text(2), text(32), text(16), text(2), fc.constantFrom('', '-', '-a', ' ', '\t', '\0'))
  const spelled = parts.map(([version, traceId, spanId, flags, rest]) => `${version}-${traceId}-${spanId}-${flags}${rest}`)
  fc.assert(
    fc.property(fc.oneof(spelled, anyText()), (traceparent) => {
      const parent = trace.getSpanContext(sampledParent(traceparent, 1)!)
      if (parent !== undefined) expect(isSpanContextValid(parent)).toBe(true)
    }),
  )
})

test.each([undefined, `00-${TRACE_ID}-${SPAN_ID}-00`])('the share is the share: %s', (traceparent) => {
  const draws = 20_000
  let drawn = 0
  for (let i = 0; i < draws; i++) if (sampledParent(traceparent, 0.01) !== undefined) drawn++
  // Eight standard deviations: one run in 10^15 is outside.
  expect(Math.abs(drawn - draws * 0.01)).toBeLessThan(8 * Math.sqrt(draws * 0.01 * 0.99))
})
