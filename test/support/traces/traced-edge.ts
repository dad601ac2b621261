import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import type { Edge } from '../service/edge.ts'
import type { Fields } from '../service/http.ts'
import { running } from '../service/running.ts'
import { OtlpReceiver, type ReceivedSpan } from './otlp-receiver.ts'
import { closeTracesPatiently } from './patient-traces.ts'
import type { CallerSpan } from './trace-contexts.ts'

const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-key'], 1, 0.001)] }))

export async function traced(env: Readonly<Record<string, string>> = {}, published: object = BUNDLE): Promise<[Edge, OtlpReceiver]> {
  closeTracesPatiently()
  const receiver = await OtlpReceiver.start()
  return [await running({ bundle: published, env: { ...receiver.env, ...env } }), receiver]
}

/** A service that stops sends all spans that it has. */
export async function spansOf([edge, receiver]: [Edge, OtlpReceiver]): Promise<ReceivedSpan[]> {
  await edge.stop()
  return receiver.spans
}

export function fieldsOf({ traceparent }: CallerSpan): Fields {
  return [
    ['traceparent', traceparent],
    ['X-Key', 'a-value-of-a-caller'],
  ]
}
