import { estimatedTokens } from '../limiter/llm-budget.ts'
import { asCount, asObject } from './json.ts'

/** What is known of an answer's cost so far. */
export interface Tally {
  /** Of all generated text, in all choices. */
  characters: number
  /** As the provider counts them; undefined until it says so. */
  promptTokens: number | undefined
  completionTokens: number | undefined
}

export interface TokenCounts {
  readonly prompt: number
  readonly completion: number
}

export function newTally(): Tally {
  return { characters: 0, promptTokens: undefined, completionTokens: undefined }
}

/** The provider's word where there is one, zero included; the estimate elsewhere. */
export function countTokens(tally: Tally, promptEstimate: number): TokenCounts {
  return {
    prompt: tally.promptTokens ?? promptEstimate,
    completion: tally.completionTokens ?? estimatedTokens(tally.characters),
  }
}

export function hasUsage(tally: Tally): boolean {
  return tally.promptTokens !== undefined || tally.completionTokens !== undefined
}

/**
 * Reads a `usage` object of any dialect. It is cumulative everywhere: what is there replaces what was. Details such as
 * cached or reasoning tokens are parts of these sums and are not added to them.
 */
export function readUsage(value: unknown, tally: Tally): void {
  const usage = asObject(value)
  if (usage === undefined) return
  const prompt = asCount(usage['prompt_tokens']) ?? asCount(usage['input_tokens'])
  const total = asCount(usage['total_tokens'])
  const rest = total === undefined ? undefined : Math.max(0, total - (prompt ?? 0))
  const completion = asCount(usage['completion_tokens']) ?? asCount(usage['output_tokens']) ?? rest
  if (prompt !== undefined) tally.promptTokens = prompt
  // A total alone is the whole cost: nothing is left for the prompt.
  else if (rest !== undefined && completion === rest) tally.promptTokens = 0
  if (completion !== undefined) tally.completionTokens = completion
}

/** The usage object of the OpenAI chat API. */
export function chatUsage({ prompt, completion }: TokenCounts): object {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}

/** The same as JSON, for every event of a stream: JSON.stringify takes seven times as long. */
export function chatUsageText({ prompt, completion }: TokenCounts): string {
  return `{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${prompt + completion}}`
}
