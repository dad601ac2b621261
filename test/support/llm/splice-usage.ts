import { usageInsertion } from '../../../src/llm/ask-usage.ts'

/** An event with usage put into it, by what its JSON has already. */
export function spliceUsage(event: Buffer, spans: readonly number[], usage: string, before: unknown): Buffer {
  const place = usageInsertion(event, spans, before)
  if (place === undefined) return event
  return Buffer.concat([event.subarray(0, place.at), Buffer.from(`${place.before}${usage}`), event.subarray(place.at + place.replaced)])
}
