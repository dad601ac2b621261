import { blockCharacters, chatCharacters } from '../../../src/llm/generated-text.ts'
import { asList, asObject, type JsonObject, parseJson } from '../../../src/llm/json.ts'
import type { LlmRequest } from '../../../src/llm/llm-request.ts'
import { characters, charactersIn } from '../../../src/llm/text-size.ts'
import { estimatedTokens } from '../../../src/llm/tokens.ts'
import { newTally, readUsage, type Tally } from '../../../src/llm/usage.ts'
import { isJson } from './json-spelling.ts'

/** What the readers of requests and answers should say, by JSON.parse and the tree that it builds. */
const PROMPT_FIELDS = ['messages', 'system', 'prompt', 'input', 'instructions']
const MAX_FIELDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens']
const CHARACTERS_PER_TOKEN = 4
/** Where a message or a part of it keeps text, and where it keeps further parts. */
const TEXT_FIELDS = ['text', 'arguments', 'input', 'refusal', 'thinking', 'reasoning_content']
const PART_FIELDS = ['content', 'output', 'summary', 'source', 'tool_calls', 'function', 'function_call', 'custom']
/** Content inside content, such as a tool's result inside a message: deeper than any API nests it. */
const MAX_DEPTH = 8

export function requestByTree(body: string): LlmRequest {
  const request = asObject(parseJson(body))
  const fields = request === undefined ? [] : PROMPT_FIELDS.filter((field) => Object.hasOwn(request, field))
  const size = fields.length === 0 ? characters(body) : fields.reduce((sum, field) => sum + promptCharacters(request![field], 0), 0)
  return {
    promptTokens: estimatedTokens(size),
    requestedTokens: request && requestedTokens(request),
    choices: Math.min(positiveInteger(request?.['n']) ?? 1, Number.MAX_SAFE_INTEGER),
    isStream: isJson(body) ? ![undefined, null, false].includes(request?.['stream'] as null) : body !== '',
    model: modelOf(request?.['model']),
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
  const requested = Math.max(...bounds) * (positiveInteger(request['n']) ?? 1)
  return bounds.length === 0 ? undefined : Math.min(requested, Number.MAX_SAFE_INTEGER)
}

function positiveInteger(value: unknown): number | undefined {
  return Number.isInteger(value) && (value as number) > 0 ? (value as number) : undefined
}

function modelOf(value: unknown): string | undefined {
  return typeof value === 'string' && value.length <= 256 ? value : undefined
}

/** The cost of an answer that came whole. One without usage or known text has generated nothing, whatever its size. */
export function answerByTree(body: string): Tally {
  const tally = newTally()
  const answer = asObject(parseJson(body))
  if (answer === undefined) return tally
  for (const value of asList(answer['choices'])) {
    const choice = asObject(value)
    tally.characters += chatCharacters(choice?.['message']) + charactersIn(choice?.['text'])
  }
  for (const item of asList(answer['output'])) tally.characters += itemCharacters(item)
  if (answer['type'] === 'message') for (const block of asList(answer['content'])) tally.characters += blockCharacters(block)
  readUsage(answer['usage'], tally)
  return tally
}

/** An item of a Responses answer: a message, a call, or reasoning. */
function itemCharacters(value: unknown): number {
  const item = asObject(value)
  if (item === undefined) return 0
  let sum = charactersIn(item['arguments']) + charactersIn(item['input'])
  for (const part of [...asList(item['content']), ...asList(item['summary'])]) {
    sum += charactersIn(asObject(part)?.['text']) + charactersIn(asObject(part)?.['refusal'])
  }
  return sum
}
