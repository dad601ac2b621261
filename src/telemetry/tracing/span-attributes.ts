import type { Attributes } from '@opentelemetry/api'
import type { Allowed, Rejected } from '../../engine/decision.ts'
import type { Reason } from '../../engine/reasons.ts'
import type { LlmRequest } from '../../llm/llm-request.ts'
import { normalizePath } from '../../policy/path.ts'

/** What was decided, as far as spans tell it. */
export interface TracedAnswer {
  readonly status: number
  readonly decision: Allowed | Rejected | undefined
  readonly refusal: Reason | undefined
}

/** Never a query, a header field or a caller's value. */
export interface TracedRequest {
  readonly method: string
  readonly uri: string
}

/** Those that OpenTelemetry's conventions know; any other text may be a caller's own. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH', 'QUERY'])

/** A span's name. */
export function methodName(method: string): string {
  return METHODS.has(method) ? method : 'HTTP'
}

export function requestAttributes({ method, uri }: TracedRequest): Attributes {
  return { 'http.request.method': METHODS.has(method) ? method : '_OTHER', 'url.path': pathOf(uri) }
}

/** Longer texts are cut. */
export const MAX_TEXT = 256

/** A copy: spans wait to be sent, and a slice would hold on to the whole target, with its query. */
function pathOf(uri: string): string {
  return uri === '*' ? uri : Buffer.from(normalizePath(uri).slice(0, MAX_TEXT)).toString()
}

/** The operations that OpenTelemetry's conventions name, by how the path of their API ends. */
const OPERATIONS: readonly (readonly [string, string])[] = [
  ['/chat/completions', 'chat'],
  ['/messages', 'chat'],
  ['/responses', 'chat'],
  ['/completions', 'text_completion'],
  ['/embeddings', 'embeddings'],
]

/** What the body asks for. */
export function llmAttributes({ uri }: TracedRequest, { model, requestedTokens }: LlmRequest): Attributes {
  const path = normalizePath(uri)
  return {
    'gen_ai.operation.name': OPERATIONS.find(([end]) => path.endsWith(end))?.[1],
    'gen_ai.request.model': model,
    'gen_ai.request.max_tokens': requestedTokens,
  }
}

export function decisionAttributes({ decision, refusal }: TracedAnswer): Attributes {
  if (decision === undefined) return { 'edge.action': 'refuse', 'edge.reason': refusal }
  const { action, reason, policy, rule } = decision
  return { 'edge.action': action, 'edge.reason': reason, 'edge.policy': policy?.id, 'edge.rule': rule?.name }
}
