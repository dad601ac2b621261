import { plainModel } from '../endpoints.ts'
import { asCount, asList, asObject, type JsonObject, writeJson } from '../json.ts'
import { fieldsOf, type Reading } from '../json-sizes.ts'
import { addTokens, larger, NOT_COUNTED, readModel, type ShownCounts, type Tally } from '../usage.ts'
import {
  CLOSING_ERRORS,
  type Closing,
  charactersIn,
  type Dialect,
  type EventMeaning,
  haveAllEnded,
  isErrorEvent,
  sseText,
} from './dialect.ts'

/** No response has this many candidates. Further candidates are not tracked. */
const MAX_CANDIDATES = 1024
const EXHAUSTED = { code: 429, status: 'RESOURCE_EXHAUSTED' }
/** Google's status of each way to end a stream with an error. */
const STATUSES = {
  error_chunk: EXHAUSTED,
  tpd_exceeded: EXHAUSTED,
  budget_exceeded: EXHAUSTED,
  blocked: { code: 403, status: 'PERMISSION_DENIED' },
} as const

/** Gemini's `streamGenerateContent`. Each event is a whole response with the next part of the text; usage is cumulative. */
export class GeminiDialect implements Dialect {
  /** Fields of earlier events that the closing event repeats. */
  readonly #repeated: Record<string, unknown> = {}
  /** Whether the client has received the end of each candidate, by its index. */
  readonly #hasEnded = new Map<number, boolean>()
  #hasFinished = false

  get hasFinished(): boolean {
    return haveAllEnded(this.#hasEnded)
  }

  read(event: JsonObject, tally: Tally): EventMeaning {
    const model = event['modelVersion'] ?? event['model_version']
    for (const [name, value] of [
      ['modelVersion', model],
      ['responseId', event['responseId'] ?? event['response_id']],
    ] as const) {
      if (typeof value === 'string') this.#repeated[name] ??= value
    }
    readGeminiModel(model, tally)
    for (const value of asList(event['candidates'])) this.#readCandidate(asObject(value), tally)
    readGeminiUsage(event['usageMetadata'] ?? event['usage_metadata'], tally)
    // Counts before the end may lag behind the text.
    if (!this.#hasFinished && tally.completionTokens !== undefined) tally.countedCharacters = NOT_COUNTED
    return isErrorEvent(event) ? 'error' : 'content'
  }

  remember(event: JsonObject): void {
    for (const value of asList(event['candidates'])) {
      const candidate = asObject(value)
      const index = asCount(candidate?.['index'] ?? 0)
      if (index !== undefined && this.#hasEnded.has(index) && isFinished(candidate)) this.#hasEnded.set(index, true)
    }
  }

  closing(how: Closing, { prompt, completion }: ShownCounts, hasUsage: boolean): string {
    const counts = { promptTokenCount: prompt, candidatesTokenCount: completion, totalTokenCount: prompt + completion }
    const usage = hasUsage ? { usageMetadata: counts } : {}
    if (how === 'graceful_close') return sseText({ candidates: this.#closingCandidates(), ...usage, ...this.#repeated })
    const { code, status } = STATUSES[how]
    return sseText({ error: { code, message: CLOSING_ERRORS[how].message, status }, ...usage })
  }

  #readCandidate(candidate: JsonObject | undefined, tally: Tally): void {
    if (candidate === undefined) return
    const parts = asObject(candidate['content'])?.['parts']
    for (const part of asList(parts)) tally.characters += partCharacters(asObject(part))
    this.#hasFinished ||= isFinished(candidate)
    // Protocol Buffers leave out zeros.
    const index = asCount(candidate['index'] ?? 0)
    if (index !== undefined && !this.#hasEnded.has(index) && this.#hasEnded.size < MAX_CANDIDATES) this.#hasEnded.set(index, false)
  }

  #closingCandidates(): object[] {
    const open = [...this.#hasEnded].filter(([, hasEnded]) => !hasEnded).map(([index]) => index)
    const content = { parts: [{ text: '' }], role: 'model' }
    return (open.length === 0 ? [0] : open).map((index) => ({ content, finishReason: 'MAX_TOKENS', index }))
  }
}

function isFinished(candidate: JsonObject | undefined): boolean {
  const reason = candidate?.['finishReason'] ?? candidate?.['finish_reason']
  return reason !== undefined && reason !== null && reason !== 'FINISH_REASON_UNSPECIFIED'
}

const OBJECT_PARTS = [
  ['functionCall', 'function_call'],
  ['executableCode', 'executable_code'],
  ['codeExecutionResult', 'code_execution_result'],
] as const

/** Counts the characters of a generated part. Thoughts are text, too. */
function partCharacters(part: JsonObject | undefined): number {
  if (part === undefined) return 0
  let sum = charactersIn(part['text'])
  for (const names of OBJECT_PARTS) {
    for (const name of names) {
      const value = asObject(part[name])
      if (value !== undefined && Object.keys(value).length > 0) sum += charactersIn(writeJson(value))
    }
  }
  return sum
}

const TEXT: Reading = { text: 'characters' }
const PART: Reading = {
  fields: fieldsOf({ text: TEXT, ...Object.fromEntries(OBJECT_PARTS.flat().map((name) => [name, { written: 'objects' }])) }),
}
/** A candidate of a response that is scanned. Its reason to end is marked. */
export const GEMINI_CANDIDATE: Reading = {
  fields: fieldsOf({
    content: { fields: fieldsOf({ parts: { list: PART } }) },
    finishReason: { isMarked: true },
    finish_reason: { isMarked: true },
  }),
}

/** Names of the numbers that `readGeminiUsage` looks for, each followed by its other spelling. */
export const GEMINI_USAGE_FIELDS = [
  ...['totalTokenCount', 'total_token_count'],
  ...['promptTokenCount', 'prompt_token_count'],
  ...['candidatesTokenCount', 'candidates_token_count'],
  ...['thoughtsTokenCount', 'thoughts_token_count'],
  ...['toolUsePromptTokenCount', 'tool_use_prompt_token_count'],
  ...['cachedContentTokenCount', 'cached_content_token_count'],
]

/**
 * Reads a `usageMetadata` object. Cached tokens are part of the prompt, and results of tools that went back to the model come on top of it. The total
 * includes thoughts, which not every version reports separately. All counts are cumulative.
 */
export function readGeminiUsage(value: unknown, tally: Tally): void {
  const usage = asObject(value)
  if (usage === undefined) return
  const [total, prompt, candidates, thoughts, toolUse, cached] = [0, 2, 4, 6, 8, 10].map((i) => countOf(usage, i))
  tally.promptTokens = larger(tally.promptTokens, prompt)
  tally.besidePrompt = larger(tally.besidePrompt, toolUse)!
  tally.cachedTokens = larger(tally.cachedTokens, cached)
  const listed = candidates === undefined && thoughts === undefined ? undefined : addTokens(candidates ?? 0, thoughts ?? 0)
  const rest = total === undefined ? -1 : total - (tally.promptTokens ?? 0) - tally.besidePrompt
  const output = rest >= 0 ? rest : listed
  if (output === undefined) return
  tally.completionTokens = larger(tally.completionTokens, output)
  tally.countedCharacters = tally.characters
}

export function readGeminiModel(value: unknown, tally: Tally): void {
  if (typeof value === 'string') readModel(plainModel(value), tally)
}

/** Protocol Buffers in JSON may write a number as a text of digits. */
function countOf(usage: JsonObject, index: number): number | undefined {
  return asProtoCount(usage[GEMINI_USAGE_FIELDS[index]!]) ?? asProtoCount(usage[GEMINI_USAGE_FIELDS[index + 1]!])
}

function asProtoCount(value: unknown): number | undefined {
  return asCount(typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value)
}
