import { maxCompletionTokens } from '../llm/tokens.ts'
import type { RequestFacts } from './cost.ts'

/** The longest completion that a request can get, in tokens. Embeddings generate no text. */
export function completionBound({ path, body }: RequestFacts, configured: number | undefined): number {
  if (path.endsWith('/embeddings')) return 0
  return maxCompletionTokens(body?.requestedTokens, configured, body?.choices)
}
