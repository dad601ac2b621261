import { asCount, asObject, type JsonObject } from './json.ts'

/** Facts known so far about the cost of a response. */
export interface Tally {
  /** Characters of all generated text, in all choices. */
  characters: number
  /** Counts from the provider, as its API reports them; undefined until it sends them. */
  promptTokens: number | undefined
  completionTokens: number | undefined
  /** Tokens of the prompt that the API counts beside `promptTokens`, such as Anthropic's cached tokens. */
  besidePrompt: number
  /** Value of `characters` when the provider last counted the completion. */
  countedCharacters: number
  /** The provider's counts of prompt tokens read from its cache, written to it, and written to it for an hour; undefined until it sends them. */
  cachedTokens: number | undefined
  writtenTokens: number | undefined
  written1hTokens: number | undefined
  /** The first model that the response names; undefined until it names one. */
  model: string | undefined
}

/** Reads the cost of a response that is not streamed, while its bytes arrive. */
export interface TallyReader {
  push(bytes: Uint8Array, from: number, to: number): void
  /** Whether the response reports that its work continues in the background, so that its usage is not known yet. */
  readonly isUnderWay: boolean
  /** Whether its id is one of those that the reader was told: it reports an earlier result. */
  readonly isLookedUp: boolean
  /** Whether the response reports an error. */
  readonly hasError: boolean
  /** Returns the tally of a complete response. */
  end(): Tally
  /** Returns the tally of a response that was cut off. */
  breakOff(): Tally
}

/** The tokens of a request as they are charged, in one shape for all APIs. The parts of the input never exceed it (`tokenCounts`). */
export interface TokenCounts {
  /** All tokens of the prompt, cached or not. */
  readonly input: number
  /** Those of the input that the provider read from its cache. */
  readonly cachedInput: number
  /** Those of the input that the provider wrote to its cache, for however long. */
  readonly cacheWrite: number
  /** Those of `cacheWrite` that the cache keeps for an hour. */
  readonly cacheWrite1h: number
  /** Tokens of the completion, reasoning included. */
  readonly output: number
  /** Whether the input is our estimate, which a part of the prompt that lies elsewhere is not in. */
  readonly isInputEstimated?: boolean | undefined
  /** The model that used the tokens, if the response names it. */
  readonly model: string | undefined
}

/** The tokens of a request as its API reports them, for events that clients see. */
export interface ShownCounts {
  readonly prompt: number
  readonly completion: number
}

/** A value of `countedCharacters` that equals no number of characters: the count came before the end, so it may not include all of the text. */
export const NOT_COUNTED = -1

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
export const USAGE_DETAILS = ['prompt_tokens_details', 'input_tokens_details', 'cache_creation']
export const DETAIL_FIELDS = ['cached_tokens', 'cache_write_tokens', 'ephemeral_5m_input_tokens', 'ephemeral_1h_input_tokens']

export function newTally(): Tally {
  return {
    characters: 0,
    promptTokens: undefined,
    completionTokens: undefined,
    besidePrompt: 0,
    countedCharacters: 0,
    cachedTokens: undefined,
    writtenTokens: undefined,
    written1hTokens: undefined,
    model: undefined,
  }
}

/** Returns token counts whose parts fit: if more tokens are cached than the input has, none count as cached, so that nothing becomes cheaper. */
export function tokenCounts(
  input: number,
  output: number,
  { cachedInput = 0, cacheWrite = 0, cacheWrite1h = 0, model, isInputEstimated }: Partial<TokenCounts> = {},
): TokenCounts {
  if (cachedInput + cacheWrite > input) return { input, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output, model, isInputEstimated }
  return { input, cachedInput, cacheWrite, cacheWrite1h: Math.min(cacheWrite1h, cacheWrite), output, model, isInputEstimated }
}

/** Returns what a response costs: the provider's counts if there are any, zero included, and otherwise the estimates. */
export function countTokens(tally: Tally, promptEstimate: number): TokenCounts {
  const { cachedTokens: cachedInput = 0, writtenTokens: cacheWrite = 0, written1hTokens: cacheWrite1h = 0, model } = tally
  const { prompt, completion } = shownCounts(tally, promptEstimate)
  return tokenCounts(addTokens(prompt, tally.besidePrompt), completion, {
    ...{ cachedInput, cacheWrite, cacheWrite1h, model },
    ...(tally.promptTokens === undefined && { isInputEstimated: true }),
  })
}

/** Returns what a request costs by estimates alone. */
export function estimatedCounts(input: number, output: number): TokenCounts {
  return tokenCounts(input, output, { isInputEstimated: true })
}

/** A count that came before the end of the text does not include the rest, so the larger of count and estimate applies then. */
export function shownCounts(tally: Tally, promptEstimate: number): ShownCounts {
  const { promptTokens: prompt = promptEstimate, completionTokens, characters, countedCharacters } = tally
  if (completionTokens !== undefined && characters === countedCharacters) return { prompt, completion: completionTokens }
  return { prompt, completion: Math.max(completionTokens ?? 0, estimatedTokens(characters)) }
}

export function hasUsage(tally: Tally): boolean {
  return tally.promptTokens !== undefined || tally.completionTokens !== undefined
}

/** Returns the larger of two counts. Counts are cumulative, so one that is smaller than an earlier one, such as a last event's zeros, takes nothing back. */
export function larger(known: number | undefined, count: number | undefined): number | undefined {
  return known === undefined || count === undefined ? (known ?? count) : Math.max(known, count)
}

/**
 * Reads a `usage` object of OpenAI's or Anthropic's APIs. All counts are cumulative. Details such as OpenAI's cached or reasoning tokens are included in
 * these sums; Anthropic's cache reads and writes are counted separately from `input_tokens`.
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
  readInput(usage, prompt, tally)
  if (completion === undefined) return
  tally.completionTokens = larger(tally.completionTokens, completion)
  tally.countedCharacters = tally.characters
}

/** The same of an event that may be of any API: a count in it holds only if it is more than is known, because it may be one of zeros. */
export function readLargerUsage(value: unknown, tally: Tally): void {
  if (asObject(value) === undefined) return
  const other = newTally()
  readUsage(value, other)
  if ((other.completionTokens ?? 0) > (tally.completionTokens ?? 0)) readUsage(value, tally)
}

/** Like `readUsage`, for the prompt alone. */
export function readPromptUsage(value: unknown, tally: Tally): void {
  const usage = asObject(value)
  if (usage === undefined) return
  readInput(usage, asCount(usage['input_tokens']), tally)
}

/**
 * The whole input never becomes smaller either. Events may split it differently into what is cached and what is not, so of those that tell both, the parts
 * are those of the largest sum; of equal sums, those with more that is cached.
 */
function readInput(usage: JsonObject, prompt: number | undefined, tally: Tally): void {
  const cache = readCache(usage)
  tally.written1hTokens = larger(tally.written1hTokens, cache?.written1h)
  if (prompt === undefined || cache === undefined || tally.promptTokens === undefined) return addInput(prompt, cache, tally)
  const { read, written, beside } = cache
  const input = addTokens(prompt, beside)
  const known = addTokens(tally.promptTokens, tally.besidePrompt)
  const split = (read ?? 0) + (written ?? 0)
  if (input < known || (input === known && split <= (tally.cachedTokens ?? 0) + (tally.writtenTokens ?? 0))) return
  tally.promptTokens = prompt
  tally.besidePrompt = beside
  tally.cachedTokens = read
  tally.writtenTokens = written
}

/**
 * Adds an event that has only one part of the input, or the first that has the other. A prompt alone that is as large as all of the input before is the whole
 * of it, and not what is not cached.
 */
function addInput(prompt: number | undefined, cache: CacheUsage | undefined, tally: Tally): void {
  const known = tally.promptTokens
  const before = addTokens(known ?? 0, tally.besidePrompt)
  const isWhole = known !== undefined && prompt !== undefined && cache === undefined && prompt >= before
  tally.promptTokens = isWhole ? prompt - tally.besidePrompt : larger(known, prompt)
  if (cache !== undefined) {
    tally.cachedTokens = larger(tally.cachedTokens, cache.read)
    tally.writtenTokens = larger(tally.writtenTokens, cache.written)
    tally.besidePrompt = cache.isInPrompt ? 0 : addTokens(tally.cachedTokens ?? 0, tally.writtenTokens ?? 0)
  }
  tally.besidePrompt = Math.max(tally.besidePrompt, before - (tally.promptTokens ?? 0))
}

interface CacheUsage {
  readonly read: number | undefined
  readonly written: number | undefined
  readonly written1h: number | undefined
  /** Whether the prompt includes them, and what it does not include. */
  readonly isInPrompt: boolean
  readonly beside: number
}

/**
 * OpenAI reports details of the prompt, Anthropic reports fields beside `input_tokens`. Gateways that translate Anthropic's responses add its fields
 * beside a `prompt_tokens` that includes them. Returns undefined if there are none.
 */
function readCache(usage: JsonObject): CacheUsage | undefined {
  const details = asObject(usage['prompt_tokens_details']) ?? asObject(usage['input_tokens_details'])
  const [readInside, writtenInside] = [asCount(details?.['cached_tokens']), asCount(details?.['cache_write_tokens'])]
  const creation = asObject(usage['cache_creation'])
  const [for5m, for1h] = [asCount(creation?.['ephemeral_5m_input_tokens']), asCount(creation?.['ephemeral_1h_input_tokens'])]
  const created = for5m === undefined && for1h === undefined ? undefined : addTokens(for5m ?? 0, for1h ?? 0)
  const read = readInside ?? asCount(usage['cache_read_input_tokens'])
  const written = writtenInside ?? asCount(usage['cache_creation_input_tokens']) ?? created
  if (read === undefined && written === undefined) return undefined
  const isInPrompt = (readInside ?? writtenInside ?? asCount(usage['prompt_tokens'])) !== undefined
  return { read, written, written1h: for1h, isInPrompt, beside: isInPrompt ? 0 : addTokens(read ?? 0, written ?? 0) }
}

/** Remembers the first model that a response names; `value` may be anything. */
export function readModel(value: unknown, tally: Tally): void {
  if (tally.model === undefined && typeof value === 'string' && value !== '') tally.model = value
}

/** Returns the usage object of the OpenAI chat API. */
export function chatUsage({ prompt, completion }: ShownCounts): object {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}

/** Returns the same object as JSON text. It is written for every event of a stream, and JSON.stringify takes seven times as long. */
export function chatUsageText({ prompt, completion }: ShownCounts): string {
  return `{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${prompt + completion}}`
}

/** Number of tokens reserved for each choice if neither the request nor the rule limits it. */
const DEFAULT_COMPLETION_TOKENS = 1000

/** A number above any budget that is still exact; sums and products of untrusted numbers are capped here. */
export const MAX_TOKENS = Number.MAX_SAFE_INTEGER

/**
 * Returns the completion tokens to reserve: the smaller of the requested and the configured limit, or if neither is set a default for each choice, or the
 * limit of another API if that is more.
 */
export function maxCompletionTokens(asked: Partial<AskedCompletion> | undefined, configured: number | undefined): number {
  const { requestedTokens, foreignTokens = 0, choices = 1 } = asked ?? {}
  return statedBound(requestedTokens, configured) ?? Math.max(Math.min(DEFAULT_COMPLETION_TOKENS * choices, MAX_TOKENS), foreignTokens)
}

/** What a request says about its completion: see `LlmRequest`. */
interface AskedCompletion {
  readonly requestedTokens: number | undefined
  readonly foreignTokens?: number | undefined
  readonly choices: number
}

/** Returns the smaller of the requested and the configured limit of a completion; undefined if neither is set. */
export function statedBound(requested: number | undefined, configured: number | undefined): number | undefined {
  if (requested === undefined) return configured
  return configured === undefined ? requested : Math.min(requested, configured)
}

/** What a growing reservation begins with if its rule does not say, in completion tokens. */
export const DEFAULT_FIRST_TOKENS = 2000

/** Returns the completion tokens that a growing reservation begins with. */
export function firstTokens(first: number, bound: number | undefined): number {
  return bound === undefined ? first : Math.min(first, bound)
}

/** A stated bound is reserved in at most so many steps, so that a long completion asks the store no more often. */
const MAX_STEPS = 256

/** Returns the completion tokens that a growing reservation asks for at a time. */
export function stepTokens(step: number, bound: number | undefined): number {
  return bound === undefined ? step : Math.max(step, Math.ceil(bound / MAX_STEPS))
}

export function addTokens(some: number, more: number): number {
  return Math.min(some + more, MAX_TOKENS)
}

/** Estimates four characters per token, for prompts and completions alike. */
export function estimatedTokens(characters: number): number {
  return Math.ceil(characters / 4)
}

/** How much each kind of token counts in a token budget, in hundredths. Every token is of exactly one kind. */
export interface TokenWeights {
  readonly input: number
  readonly cachedInput: number
  readonly cacheWrite: number
  readonly output: number
}

/** Every token counts once. */
const EQUAL_WEIGHTS: TokenWeights = Object.freeze({ input: 100, cachedInput: 100, cacheWrite: 100, output: 100 })

/** Returns what a token budget charges: the weighted sum, rounded up once. */
export function chargedTokens({ input, cachedInput, cacheWrite, output }: TokenCounts, weights = EQUAL_WEIGHTS): number {
  const plain = input - cachedInput - cacheWrite
  const rest = partOf(plain, weights.input) + partOf(cachedInput, weights.cachedInput) + partOf(cacheWrite, weights.cacheWrite)
  const whole = wholeOf(plain, weights.input) + wholeOf(cachedInput, weights.cachedInput) + wholeOf(cacheWrite, weights.cacheWrite)
  return roundedUp(whole + wholeOf(output, weights.output), rest + partOf(output, weights.output))
}

/** Returns what a token budget reserves. Which part of the prompt is cached is not known yet, so all of it counts as the heaviest kind of input. */
export function reservedTokens(prompt: number, completion: number, weights = EQUAL_WEIGHTS): number {
  const heaviest = Math.max(weights.input, weights.cachedInput, weights.cacheWrite)
  const whole = wholeOf(prompt, heaviest) + wholeOf(completion, weights.output)
  return roundedUp(whole, partOf(prompt, heaviest) + partOf(completion, weights.output))
}

// tokens × weight is split into whole tokens and a rest in hundredths, by the hundreds of both factors, so that no product exceeds 2^53 unless the
// sum does.

function wholeOf(tokens: number, weight: number): number {
  return tokens * Math.floor(weight / 100) + Math.floor(tokens / 100) * (weight % 100)
}

function partOf(tokens: number, weight: number): number {
  return (tokens % 100) * (weight % 100)
}

function roundedUp(whole: number, rest: number): number {
  return Math.min(whole + Math.ceil(rest / 100), MAX_TOKENS)
}
