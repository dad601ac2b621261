/** Reserved for a completion when neither the request nor the rule bounds it. */
const DEFAULT_COMPLETION_TOKENS = 1000

/** The completion tokens to reserve: the smaller of what is asked and what is configured. */
export function maxCompletionTokens(requested: number | undefined, configured: number | undefined): number {
  if (requested === undefined) return configured ?? DEFAULT_COMPLETION_TOKENS
  return configured === undefined ? requested : Math.min(requested, configured)
}

/** Tokens in so many characters, by the one rule for prompts and completions. */
export function estimatedTokens(characters: number): number {
  return Math.ceil(characters / 4)
}

/** Embeddings generate no text, so they reserve none. */
export function generatesText(path: string): boolean {
  return !path.endsWith('/embeddings')
}
