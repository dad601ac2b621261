import { asCount, asObject } from './json.ts'
import { estimatedTokens } from './tokens.ts'

/** What is known of a response's cost so far. */
export interface Tally {
  /** Of all generated text, in all choices. */
  characters: number
  /** The provider's counts; undefined until it sends them. */
  promptTokens: number | undefined
  completionTokens: number | undefined
  /** `characters` at the provider's last count of the completion. */
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
 * The provider's counts where there are any, zero included; else the estimate. A count that came before the end of the text does not
 * include the rest: then the larger of the two applies.
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
 * Reads a `usage` object of any dialect. All are cumulative: new values replace old ones. Details such as
 * OpenAI's cached or reasoning tokens are included in these sums; Anthropic's cache reads and
 * writes are counted apart from `input_tokens`, and are not charged.
 */
export function readUsage(value: unknown, tally: Tally): void {
  const usage = asObject(value)
  if (usage === undefined) return
  const total = asCount(usage['total_tokens'])
  let prompt = asCount(usage['prompt_tokens']) ?? asCount(usage['input_tokens'])
  let completion = asCount(usage['completion_tokens']) ?? asCount(usage['output_tokens'])
  // The rest of the total is the missing part.
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

/** The same as JSON text, for every event of a stream: JSON.stringify takes seven times as long. */
export function chatUsageText({ prompt, completion }: TokenCounts): string {
  return `{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${prompt + completion}}`
}
