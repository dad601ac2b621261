import { asCount, asObject, type JsonObject } from './json.ts'

/** Facts known so far about the cost of a response. */
export interface Tally {
  /** Characters of all generated text, in all choices. */
  characters: number
  /** Counts from the provider; undefined until it sends them. */
  promptTokens: number | undefined
  completionTokens: number | undefined
  /** Value of `characters` when the provider last counted the completion. */
  countedCharacters: number
  /** The provider's count of prompt tokens in its cache; undefined until it sends one. */
  cache: CacheCounts | undefined
  /** The first model that the response names; undefined until it names one. */
  model: string | undefined
}

export interface TokenCounts {
  /** Prompt tokens as the API reports them: cached tokens are not included if the API counts them separately. */
  readonly prompt: number
  readonly completion: number
  /** Prompt tokens that providers price separately; undefined if there are none. */
  readonly cache?: CacheCounts | undefined
  /** The model that used the tokens, if the response names it. */
  readonly model?: string | undefined
}

/** Prompt tokens that were read from the provider's cache, and those that were written to it. */
export interface CacheCounts {
  readonly read: number
  readonly written: number
  /** Whether these tokens are part of `prompt`, as with OpenAI, or are added to it, as with Anthropic. */
  readonly isInPrompt: boolean
}

/** Names of the numbers that `readUsage` looks for. */
export const USAGE_FIELDS = [
  'total_tokens',
  'prompt_tokens',
  'input_tokens',
  'completion_tokens',
  'output_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
]
/** Names of the objects beside them, and of the numbers in those objects. */
export const USAGE_DETAILS = ['prompt_tokens_details', 'input_tokens_details']
export const DETAIL_FIELDS = ['cached_tokens', 'cache_write_tokens']

export function newTally(): Tally {
  return { characters: 0, promptTokens: undefined, completionTokens: undefined, countedCharacters: 0, cache: undefined, model: undefined }
}

/**
 * Uses the provider's counts if there are any, zero included, and otherwise the estimate. A count that came before the end of the text does not
 * include the rest, so the larger of the two applies then.
 */
export function countTokens(tally: Tally, promptEstimate: number): TokenCounts {
  const { promptTokens, completionTokens, characters, countedCharacters, cache, model } = tally
  const prompt = promptTokens ?? promptEstimate
  if (completionTokens !== undefined && characters === countedCharacters) return { prompt, completion: completionTokens, cache, model }
  return { prompt, completion: Math.max(completionTokens ?? 0, estimatedTokens(characters)), cache, model }
}

/** Returns all tokens of a prompt, whether or not they were cached. The caller chooses what is cached, so every budget includes cached tokens. */
export function inputTokens({ prompt, cache }: TokenCounts): number {
  return cache === undefined || cache.isInPrompt ? prompt : addTokens(prompt, addTokens(cache.read, cache.written))
}

/** Returns the number of tokens that token budgets charge. */
export function chargedTokens(counts: TokenCounts): number {
  return addTokens(inputTokens(counts), counts.completion)
}

export function hasUsage(tally: Tally): boolean {
  return tally.promptTokens !== undefined || tally.completionTokens !== undefined
}

/**
 * Reads a `usage` object of any dialect. All counts are cumulative, so new values replace old ones. Details such as OpenAI's cached or reasoning
 * tokens are included in these sums; Anthropic's cache reads and writes are counted separately from `input_tokens`.
 */
export function readUsage(value: unknown, tally: Tally): void {
  const usage = asObject(value)
  if (usage === undefined) return
  const total = asCount(usage['total_tokens'])
  let prompt = asCount(usage['prompt_tokens']) ?? asCount(usage['input_tokens'])
  let completion = asCount(usage['completion_tokens']) ?? asCount(usage['output_tokens'])
  // The missing part is the rest of the total.
  if (total !== undefined) {
    completion ??= Math.max(0, total - (prompt ?? 0))
    prompt ??= Math.max(0, total - completion)
  }
  tally.promptTokens = prompt ?? tally.promptTokens
  tally.cache = cacheCounts(usage, tally.cache)
  if (completion === undefined) return
  tally.completionTokens = completion
  tally.countedCharacters = tally.characters
}

/** Like `readUsage`, for the prompt alone. */
export function readPromptUsage(value: unknown, tally: Tally): void {
  const usage = asObject(value)
  if (usage === undefined) return
  tally.promptTokens = asCount(usage['input_tokens']) ?? tally.promptTokens
  tally.cache = cacheCounts(usage, tally.cache)
}

/**
 * OpenAI reports details of the prompt, Anthropic reports fields beside `input_tokens`. Gateways that translate Anthropic's responses add its fields
 * beside a `prompt_tokens` that includes them.
 */
function cacheCounts(usage: JsonObject, before: CacheCounts | undefined): CacheCounts | undefined {
  const details = asObject(usage['prompt_tokens_details']) ?? asObject(usage['input_tokens_details'])
  const [readInside, writtenInside] = [asCount(details?.['cached_tokens']), asCount(details?.['cache_write_tokens'])]
  const read = readInside ?? asCount(usage['cache_read_input_tokens'])
  const written = writtenInside ?? asCount(usage['cache_creation_input_tokens'])
  if (read === undefined && written === undefined) return before
  const isInPrompt = (readInside ?? writtenInside ?? asCount(usage['prompt_tokens'])) !== undefined
  const counts = { read: read ?? before?.read ?? 0, written: written ?? before?.written ?? 0, isInPrompt }
  return counts.read + counts.written === 0 ? undefined : counts
}

/** Remembers the first model that a response names; `value` may be anything. */
export function readModel(value: unknown, tally: Tally): void {
  if (tally.model === undefined && typeof value === 'string' && value !== '') tally.model = value
}

/** Returns the usage object of the OpenAI chat API. */
export function chatUsage({ prompt, completion }: TokenCounts): object {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}

/** Returns the same object as JSON text. It is written for every event of a stream, and JSON.stringify takes seven times as long. */
export function chatUsageText({ prompt, completion }: TokenCounts): string {
  return `{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${prompt + completion}}`
}

/** Number of tokens reserved for each choice if neither the request nor the rule limits it. */
const DEFAULT_COMPLETION_TOKENS = 1000

/** A number above any budget that is still exact; sums and products of untrusted numbers are capped here. */
export const MAX_TOKENS = Number.MAX_SAFE_INTEGER

/** Returns the completion tokens to reserve: the smaller of the requested and the configured limit, or a default for each choice if neither is set. */
export function maxCompletionTokens(requested: number | undefined, configured: number | undefined, choices = 1): number {
  if (requested === undefined) return configured ?? Math.min(DEFAULT_COMPLETION_TOKENS * choices, MAX_TOKENS)
  return configured === undefined ? requested : Math.min(requested, configured)
}

export function addTokens(some: number, more: number): number {
  return Math.min(some + more, MAX_TOKENS)
}

/** Estimates four characters per token, for prompts and completions alike. */
export function estimatedTokens(characters: number): number {
  return Math.ceil(characters / 4)
}
