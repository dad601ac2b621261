import { estimatedTokens } from '../limiter/llm-budget.ts'
import { asCount, asList, asObject, type JsonObject, parseJson } from './json.ts'
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

/** Text, a list of texts, messages and their parts. A number is a token that the client has made itself. */
function promptCharacters(value: unknown, depth: number): number {
  if (typeof value === 'string') return characters(value)
  if (typeof value === 'number') return CHARACTERS_PER_TOKEN
  if (depth > MAX_DEPTH) return 0
  if (Array.isArray(value)) {
    let sum = 0
    for (const part of value) sum += promptCharacters(part, depth + 1)
    return sum
  }
  const part = asObject(value)
  if (part === undefined) return 0
  let sum = charactersIn(part['text']) + charactersIn(part['arguments']) + charactersIn(part['output'])
  if (typeof part['content'] !== 'number') sum += promptCharacters(part['content'], depth + 1)
  for (const call of asList(part['tool_calls'])) sum += charactersIn(asObject(asObject(call)?.['function'])?.['arguments'])
  return sum
}

function requestedTokens(request: JsonObject): number | undefined {
  const bounds = MAX_FIELDS.map((field) => asCount(request[field])).filter((bound) => bound !== undefined && bound > 0) as number[]
  if (bounds.length === 0) return undefined
  return Math.max(...bounds) * (asCount(request['n']) || 1)
}
