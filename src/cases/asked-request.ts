import type { Usage } from '../costs/cost.ts'
import { encodePathText } from '../policy/path.ts'
import type { SimulatedRequest } from '../simulation/simulated-door.ts'
import type { Step } from './case-schema.ts'

/** The request of a step as a client sends it. A Host field is the request's host. */
export function askedRequest({ request, usage }: Pick<Step, 'request' | 'usage'>): SimulatedRequest {
  const { method, uri, body } = request
  let { host } = request
  const fields: string[] = []
  for (const [name, value] of Object.entries(request.headers)) {
    for (const line of [value].flat()) {
      // As clients send it: one character for each byte of UTF-8.
      const text = Buffer.from(String(line).trim()).toString('latin1')
      if (name.toLowerCase() === 'host' && host === undefined) host = text
      else fields.push(name, text)
    }
  }
  return { method, uri: encodePathText(uri), host, fields, body, usage: usage && usageOf(usage) }
}

function usageOf({ prompt_tokens: prompt, completion_tokens: completion, cached_tokens: cached, cost }: NonNullable<Step['usage']>): Usage {
  if (prompt === undefined && completion === undefined) return { tokens: undefined, cost, isStreamed: false }
  const cache = cached === undefined ? undefined : { read: cached, written: 0, isInPrompt: true }
  return { tokens: { prompt: prompt ?? 0, completion: completion ?? 0, cache }, cost, isStreamed: false }
}
