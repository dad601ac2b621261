import { asCount, asObject } from './json.ts'
import { estimatedTokens } from './tokens.ts'

/** What is known of an answer's cost so far. */
export interface Tally {
  /** Of all generated text, in all choices. */
  characters: number
  /** As the provider counts them; undefined until it says so. */
  promptTokens: number | undefined
  completionTokens: number | undefined
  /** How much text there was when the provider last counted the completion. */
  countedCharacters: number
}

export interface TokenCounts {
  readonly prompt: number
  readonly completion: number
}

/** The names that `readUsage` looks for. */
export const USAGE_FIELDS = ['total_tokens', 'prompt_tokens', 'input_tokens', 'completion_tokens', 'output_tokens']

export function newTally(): Tally {
  return { characters: 0, promptTokens: undefined, completionTokens: undefined, countedCharacters: 0 }
}

/**
 * The provider's word where there is one, zero included; the estimate elsewhere. A count that came before the last of the
 * text does not know of it: then the larger of both holds.
 */
export function countTokens(tally: Tally, promptEstimate: number): TokenCounts {
  const { promptTokens, completionTokens, characters, countedCharacters } = tally
  const prompt = promptTokens ?? promptEstimate
  if (completionTokens !== undefined && characters === countedCharacters) return { prompt, completion: completionTokens }
  return { prompt, completion: Math.max(completionTokens ?? 0, estimatedTokens(characters)) }
}

export function hasUsage(tally: Tally): boolean {
  return tally.promptTokens !== undefined || tally.completionTokens !== undefined
}

/**
 * Reads a `usage` object of any dialect. It is cumulative everywhere: what is there replaces what was. Details such as
 * OpenAI's cached or reasoning tokens are parts of these sums and are not added to them; what Anthropic reads from or
 * writes to its cache is counted apart from `input_tokens`, and is not charged.
 */
export function readUsage(value: unknown, tally: Tally): void {
  const usage = asObject(value)
  if (usage === undefined) return
  const total = asCount(usage['total_tokens'])
  let prompt = asCount(usage['prompt_tokens']) ?? asCount(usage['input_tokens'])
  let completion = asCount(usage['completion_tokens']) ?? asCount(usage['output_tokens'])
  // What is left of a total is the part that is not named.
  if (total !== undefined) {
    completion ??= Math.max(0, total - (prompt ?? 0))
    prompt ??= Math.max(0, total - completion)
  }
  tally.promptTokens = prompt ?? tally.promptTokens
  if (completion === undefined) return
  tally.completionTokens = completion
  tally.countedCharacters = tally.characters
}

/** The usage object of the OpenAI chat API. */
export function chatUsage({ prompt, completion }: TokenCounts): object {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}

/** The same as JSON, for every event of a stream: JSON.stringify takes seven times as long. */
export function chatUsageText({ prompt, completion }: TokenCounts): string {
  return `{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${prompt + completion}}`
}
