/** Reserved for each choice when neither the request nor the rule limits it. */
const DEFAULT_COMPLETION_TOKENS = 1000

/** Above any budget, and still exact: sums and products of untrusted numbers are capped here. */
export const MAX_TOKENS = Number.MAX_SAFE_INTEGER

/** The completion tokens to reserve: the smaller of the requested and the configured limit; without either, a default for each choice. */
export function maxCompletionTokens(requested: number | undefined, configured: number | undefined, choices = 1): number {
  if (requested === undefined) return configured ?? Math.min(DEFAULT_COMPLETION_TOKENS * choices, MAX_TOKENS)
  return configured === undefined ? requested : Math.min(requested, configured)
}

export function addTokens(some: number, more: number): number {
  return Math.min(some + more, MAX_TOKENS)
}

/** The estimate for prompts and completions alike: four characters per token. */
export function estimatedTokens(characters: number): number {
  return Math.ceil(characters / 4)
}
