import { asList, asObject, asText, type JsonObject, writeJson } from './json.ts'
import { characters, charactersIn } from './text-size.ts'

/** Characters generated in a chat choice: a complete message, or a delta. */
export function chatCharacters(value: unknown): number {
  const message = asObject(value)
  if (message === undefined) return 0
  let sum = contentCharacters(message['content']) + charactersIn(message['refusal'])
  sum += charactersIn(message['reasoning_content'] ?? message['reasoning'])
  const calls = message['tool_calls']
  if (Array.isArray(calls)) for (const call of calls) sum += callCharacters(asObject(call))
  return message['function_call'] === undefined ? sum : sum + argumentCharacters(message['function_call'])
}

/** A block of an Anthropic message. */
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
  for (const part of asList(content)) sum += charactersIn(asObject(part)?.['text'])
  return sum
}

function callCharacters(call: JsonObject | undefined): number {
  return argumentCharacters(call?.['function']) + charactersIn(asObject(call?.['custom'])?.['input'])
}

function argumentCharacters(call: unknown): number {
  return charactersIn(asObject(call)?.['arguments'])
}
