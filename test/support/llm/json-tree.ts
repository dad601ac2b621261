import { blockCharacters, characters, charactersIn, chatCharacters } from '../../../src/llm/dialects/dialect.ts'
import { asList, asObject, type JsonObject, parseJson } from '../../../src/llm/json.ts'
import type { LlmRequest } from '../../../src/llm/llm-request.ts'
import { estimatedTokens, newTally, readUsage, type Tally } from '../../../src/llm/usage.ts'
import { isJson } from './json-spelling.ts'

/** What the readers of requests and answers should say, by JSON.parse and the tree that it builds. */
const PROMPT_FIELDS = ['messages', 'system', 'prompt', 'input', 'instructions']
const DEFINITION_FIELDS = ['tools', 'functions', 'response_format']
const MAX_FIELDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n_predict', 'num_predict', 'max_new_tokens']
const CHOICES_FIELDS = ['n', 'n_cmpl', 'best_of']
const NESTING_FIELDS = ['options', 'parameters', 'sampling_params', 'extra_body']
const UNCOUNTED_FIELDS = ['stream', 'stream_options', 'background', 'model', 'metadata', 'logit_bias', 'image', 'images']
const BOUND_FIELDS = [...MAX_FIELDS, ...CHOICES_FIELDS]
const KNOWN_FIELDS = [...PROMPT_FIELDS, ...DEFINITION_FIELDS, ...BOUND_FIELDS, ...NESTING_FIELDS, ...UNCOUNTED_FIELDS]
const CHARACTERS_PER_TOKEN = 4
/** Where a message or a part of it keeps text, and where it keeps further parts. */
const TEXT_FIELDS = [
  'text',
  'arguments',
  'input',
  'refusal',
  'thinking',
  'reasoning_content',
  'reasoning',
  'title',
  'context',
  'encrypted_content',
]
const PART_FIELDS = ['content', 'output', 'summary', 'source', 'tool_calls', 'function', 'function_call', 'custom']
const WRITTEN_FIELDS = ['tools', 'code', 'action', 'operation', 'results', 'stdout', 'stderr']
/** Content inside content, such as a tool's result inside a message: deeper than any API nests it. */
const MAX_DEPTH = 8

/** What a reader and the tree agree on: places in the bytes are the reader's alone. */
export function comparable<Read>(read: Read): Read {
  return typeof read === 'object' ? { ...read, streamOptionsAt: undefined, modelsAt: undefined } : read
}

export function requestByTree(body: string): LlmRequest {
  const request = asObject(parseJson(body))
  const fields = request === undefined ? [] : PROMPT_FIELDS.filter((field) => Object.hasOwn(request, field))
  const prompt = fields.reduce((sum, field) => sum + promptCharacters(request![field], 0), 0)
  const stated = Math.max(1, ...(boundsOf(CHOICES_FIELDS, request).filter((value) => Number.isInteger(value)) as number[]))
  const prompts = asList(request?.['prompt']).filter((value) => typeof value === 'string' || (typeof value === 'object' && value !== null))
  const choices = Math.min(stated * Math.max(prompts.length, 1), Number.MAX_SAFE_INTEGER)
  return {
    promptTokens: estimatedTokens(fields.length === 0 ? characters(body) : prompt + writtenBeside(request!)),
    requestedTokens: request && requestedTokens(request, choices),
    ...(request !== undefined && { foreignTokens: foreignTokens(request, choices) }),
    choices,
    isStream: isJson(body) ? ![undefined, null, false].includes(request?.['stream'] as null) : body !== '',
    model: modelOf(request?.['model']),
    ...(!isJson(body) && { isUnreadable: body !== '' }),
    ...(isJson(body) && {
      isBackground: ![undefined, null, false].includes(request?.['background'] as null),
      hasPrompt: fields.length > 0,
      isGrowable: isGrowable(request, fields.length > 0) || undefined,
    }),
    ...(isJson(body) && { isForText: request !== undefined && ('messages' in request || 'prompt' in request) }),
  }
}

/** What the model may read beside its prompt, as JSON.stringify writes it. */
function writtenBeside(request: JsonObject): number {
  const otherSize = othersOf(request, KNOWN_FIELDS) + nestedOthers(request) + variablesIn(request)
  const definitions = DEFINITION_FIELDS.reduce((sum, name) => sum + writtenCharacters(request[name]), 0)
  return definitions + (otherSize > 256 ? otherSize : 0)
}

function othersOf(object: JsonObject, known: readonly string[]): number {
  const others = Object.keys(object).filter((name) => !known.includes(name))
  return others.reduce((sum, name) => sum + writtenCharacters(object[name]), 0)
}

function nestedOthers(request: JsonObject): number {
  return NESTING_FIELDS.reduce((sum, name) => sum + othersOf(asObject(request[name]) ?? {}, BOUND_FIELDS), 0)
}

/** What is put into prompts that the provider keeps. */
function variablesIn(request: JsonObject): number {
  return PROMPT_FIELDS.reduce((sum, field) => sum + variableCharacters(request[field], 0), 0)
}

function variableCharacters(value: unknown, depth: number): number {
  if (depth > MAX_DEPTH || typeof value !== 'object' || value === null) return 0
  if (Array.isArray(value)) return value.reduce((sum: number, part) => sum + variableCharacters(part, depth + 1), 0)
  const part = value as JsonObject
  let sum = 0
  for (const text of Object.values(asObject(part['variables']) ?? {}))
    sum += promptCharacters(text, depth + 2) + variableCharacters(text, depth + 2)
  for (const field of PART_FIELDS) sum += variableCharacters(part[field], depth + 1)
  return sum
}

function writtenCharacters(value: unknown): number {
  if (typeof value === 'string') return characters(value)
  if (typeof value !== 'object' || value === null || Object.keys(value).length === 0) return 0
  return characters(JSON.stringify(value))
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
  for (const field of ['input', 'arguments']) if (asObject(part[field]) !== undefined) sum += writtenCharacters(part[field])
  for (const field of WRITTEN_FIELDS) sum += writtenCharacters(part[field])
  for (const field of PART_FIELDS) if (part[field] !== undefined) sum += promptCharacters(part[field], depth + 1)
  return part['type'] === 'text' ? sum + charactersIn(part['data']) : sum
}

function requestedTokens(request: JsonObject, choices: number): number | undefined {
  const bound = hasOwnBound(request) ? boundIn(boundsOf(MAX_FIELDS, request)) : undefined
  const stated = boundsOf(CHOICES_FIELDS, request)
  const hasBadChoices = boundIn(stated) === undefined && stated.some((value) => (value ?? null) !== null)
  return bound === undefined || hasBadChoices ? undefined : Math.min(bound * choices, Number.MAX_SAFE_INTEGER)
}

/** What it states in vain, but for making a reservation larger. */
function foreignTokens(request: JsonObject, choices: number): number | undefined {
  if (requestedTokens(request, choices) !== undefined) return undefined
  const counts = boundsOf(MAX_FIELDS, request).filter((value) => Number.isInteger(value) && (value as number) > 0) as number[]
  return counts.length === 0 ? undefined : Math.min(Math.max(...counts) * choices, Number.MAX_SAFE_INTEGER)
}

/** By the name that its own API has for it. */
function hasOwnBound(request: JsonObject): boolean {
  const states = (name: string) => boundIn([request[name]]) !== undefined
  const isForText = 'messages' in request || 'prompt' in request
  if (isForText && !states('max_tokens') && !states('max_completion_tokens')) return false
  return !('input' in request) || states('max_output_tokens')
}

/** At the top of the body, and in the objects that may have them too. */
function boundsOf(names: readonly string[], request: JsonObject | undefined): unknown[] {
  const places = [request, ...NESTING_FIELDS.map((name) => asObject(request?.[name]))]
  return places.flatMap((place) => names.map((name) => place?.[name]))
}

/** The largest of those that are there; undefined where there is none, and where one is no positive integer. */
function boundIn(values: readonly unknown[]): number | undefined {
  const present = values.filter((value) => value !== undefined && value !== null)
  if (!present.every((value) => Number.isInteger(value) && (value as number) > 0)) return undefined
  return present.length === 0 ? undefined : Math.min(Math.max(...(present as number[])), Number.MAX_SAFE_INTEGER)
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

/** Whether the body says exactly that it wants a stream, and nothing that goes on behind it. */
function isGrowable(request: Record<string, unknown> | undefined, hasPrompt: boolean): boolean {
  return hasPrompt && request?.['stream'] === true && [undefined, null, false].includes(request['background'] as null)
}
