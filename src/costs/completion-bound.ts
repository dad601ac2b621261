import { maxCompletionTokens } from '../llm/tokens.ts'
import type { RequestFacts } from './cost.ts'

/** The longest completion that a request can get, in tokens. */
export function completionBound({ path, body }: RequestFacts, configured: number | undefined): number {
  if (path.endsWith('/embeddings') && body?.isForText !== true) return 0
  return maxCompletionTokens(body?.requestedTokens, configured, body?.choices)
}

/** Whether a request only has its tokens counted, which providers do for nothing. */
export function isCountedOnly(path: string): boolean {
  return path.endsWith('/count_tokens')
}
