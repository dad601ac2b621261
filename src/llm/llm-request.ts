import { estimatedTokens } from '../limiter/llm-budget.ts'
import { asObject, type JsonObject, parseJson } from './json.ts'
import { characters, charactersIn } from './text-size.ts'

/** What a request's body says about its cost. */
export interface LlmRequest {
  readonly promptTokens: number
  /** The most that it asks for, over all choices; undefined when it sets no bound. */
  readonly requestedTokens: number | undefined
  /** The body has `"stream": true`. */
  readonly isStream: boolean
}

const PROMPT_FIELDS = ['messages', 'system', 'prompt', 'input', 'instructions']
const MAX_FIELDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens']
const CHARACTERS_PER_TOKEN = 4
/** Where a message or a part of it keeps text, and where it keeps further parts. */
const TEXT_FIELDS = ['text', 'arguments', 'input', 'refusal', 'thinking', 'reasoning_content']
const PART_FIELDS = ['content', 'output', 'summary', 'source', 'tool_calls', 'function', 'function_call', 'custom']
/** Content inside content, such as a tool's result inside a message: deeper than any API nests it. */
const MAX_DEPTH = 8

/** Reads chat, completions, embeddings, Responses and Anthropic requests alike, by the fields that are there. */
export function readLlmRequest(body: string): LlmRequest {
  const request = asObject(parseJson(body))
  const fields = request === undefined ? [] : PROMPT_FIELDS.filter((field) => Object.hasOwn(request, field))
  const size = fields.length === 0 ? characters(body) : fields.reduce((sum, field) => sum + promptCharacters(request![field], 0), 0)
  return {
    promptTokens: estimatedTokens(size),
    requestedTokens: request && requestedTokens(request),
    isStream: request?.['stream'] === true,
  }
}

/** Text, a list of texts, messages and their parts. A number in a list is a token that the client has made itself. */
function promptCharacters(value: unknown, depth: number): number {
  if (typeof value === 'string') return characters(value)
  if (depth > MAX_DEPTH) return 0
  let sum = 0
  if (Array.isArray(value)) {
    for (const part of value) sum += typeof part === 'number' ? CHARACTERS_PER_TOKEN : promptCharacters(part, depth + 1)
    return sum
  }
  const part = asObject(value)
  if (part === undefined) return 0
  for (const field of TEXT_FIELDS) sum += charactersIn(part[field])
  for (const field of PART_FIELDS) if (part[field] !== undefined) sum += promptCharacters(part[field], depth + 1)
  return part['type'] === 'text' ? sum + charactersIn(part['data']) : sum
}

function requestedTokens(request: JsonObject): number | undefined {
  const bounds = MAX_FIELDS.map((field) => positiveInteger(request[field])).filter((bound) => bound !== undefined)
  return bounds.length === 0 ? undefined : Math.max(...bounds) * (positiveInteger(request['n']) ?? 1)
}

function positiveInteger(value: unknown): number | undefined {
  return Number.isInteger(value) && (value as number) > 0 ? (value as number) : undefined
}
