import { asList, asObject, asText, type JsonObject, writeJson } from '../json.ts'
import type { ShownCounts, Tally } from '../usage.ts'

/** The APIs whose streams we can read and end. */
export type DialectName = 'chat' | 'responses' | 'anthropic' | 'gemini'

/** The stream format of one provider's API. */
export interface Dialect {
  /** Whether the client has received the end of everything that began, so that no text is likely to follow. */
  readonly hasFinished: boolean
  /** Adds what an event reports to the tally. */
  read(event: JsonObject, tally: Tally): EventMeaning
  /** Records an event that is sent to the client, because a closing depends on what the client has received. */
  remember(event: JsonObject): void
  /** Returns the events that end a stream which is cut at this point. */
  closing(how: Closing, counts: ShownCounts, hasUsage: boolean): string
}

export type EventMeaning = 'content' | 'end' | 'error'
/** How a stream is ended: as if the model were done, or with an error because its completion is too long, a budget is used up or its caller is blocked. */
export type Closing = 'graceful_close' | keyof typeof CLOSING_ERRORS

/** Recognises an error in any dialect: OpenAI's, Anthropic's, and their imitations. Some servers send an empty one with each event. */
export function isErrorEvent({ type, error }: JsonObject): boolean {
  if (type === 'error') return true
  if (typeof error === 'string') return error !== ''
  const details = asObject(error)
  return details !== undefined && Object.keys(details).length > 0
}

/** Recognises the last event of a chat stream for which usage was requested. */
export function hasUsageOnly(event: JsonObject): boolean {
  const { choices, usage } = event
  return Array.isArray(choices) && choices.length === 0 && asObject(usage) !== undefined && !isErrorEvent(event)
}

/** Whether there are choices, and the client has received the end of each of them. */
export function haveAllEnded(hasEnded: ReadonlyMap<number, boolean>): boolean {
  if (hasEnded.size === 0) return false
  for (const each of hasEnded.values()) if (!each) return false
  return true
}

/** Returns an event as it is sent. */
export function sseText(data: object, event?: string): string {
  return `${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`
}

/** Error details of a stream that is cut with an error. */
export const CLOSING_ERRORS = {
  error_chunk: { message: 'max completion tokens exceeded', type: 'rate_limit_error', code: 'completion_tokens_exceeded' },
  tpd_exceeded: { message: 'the daily token budget is exceeded', type: 'rate_limit_error', code: 'tpd_exceeded' },
  budget_exceeded: { message: 'the budget is exceeded', type: 'rate_limit_error', code: 'budget_exceeded' },
  blocked: { message: 'access is blocked', type: 'permission_error', code: 'blocked' },
} as const

/** Counts the characters generated in a chat choice, which is a complete message or a delta. */
export function chatCharacters(value: unknown): number {
  const message = asObject(value)
  if (message === undefined) return 0
  let sum = contentCharacters(message['content']) + charactersIn(message['refusal'])
  // Servers that send both names send the same text twice, or leave one of them empty.
  sum += Math.max(charactersIn(message['reasoning_content']), charactersIn(message['reasoning']))
  const calls = message['tool_calls']
  if (Array.isArray(calls)) for (const call of calls) sum += callCharacters(asObject(call))
  return message['function_call'] === undefined ? sum : sum + argumentCharacters(message['function_call'])
}

/** Counts the characters in a block of an Anthropic message. */
export function blockCharacters(value: unknown): number {
  const block = asObject(value)
  if (block === undefined) return 0
  const input = asObject(block['input'])
  const inputText = input === undefined || Object.keys(input).length === 0 ? undefined : writeJson(input)
  return charactersIn(block['text']) + charactersIn(block['thinking']) + charactersIn(inputText)
}

function contentCharacters(content: unknown): number {
  const text = asText(content)
  if (text !== undefined) return characters(text)
  let sum = 0
  for (const value of asList(content)) {
    const part = asObject(value)
    sum += charactersIn(part?.['text']) + thinkingCharacters(part?.['thinking'])
  }
  return sum
}

/** Mistral's reasoning is a part of the content, with texts of its own. */
function thinkingCharacters(thinking: unknown): number {
  let sum = charactersIn(thinking)
  for (const part of asList(thinking)) sum += charactersIn(asObject(part)?.['text'])
  return sum
}

function callCharacters(call: JsonObject | undefined): number {
  return argumentCharacters(call?.['function']) + charactersIn(asObject(call?.['custom'])?.['input'])
}

function argumentCharacters(call: unknown): number {
  return charactersIn(asObject(call)?.['arguments'])
}

/** Counts the code points in a text. A surrogate pair that is split between two texts counts once. */
export function characters(text: string): number {
  let count = text.length
  for (let i = 0; i < text.length; i++) if ((text.charCodeAt(i) & 0xfc00) === 0xdc00) count--
  return count
}

/** Like `characters`, for a value that may not be a string. */
export function charactersIn(value: unknown): number {
  return typeof value === 'string' ? characters(value) : 0
}
