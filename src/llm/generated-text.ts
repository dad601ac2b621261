import { asList, asObject, asText } from './json.ts'
import { characters, charactersIn } from './text-size.ts'

/** What a chat choice has generated: a whole message, or the delta of one. */
export function chatCharacters(value: unknown): number {
  const message = asObject(value)
  if (message === undefined) return 0
  let sum = contentCharacters(message['content']) + charactersIn(message['refusal'])
  sum += charactersIn(message['reasoning_content'] ?? message['reasoning'])
  const calls = message['tool_calls']
  if (Array.isArray(calls)) for (const call of calls) sum += argumentCharacters(asObject(call)?.['function'])
  return message['function_call'] === undefined ? sum : sum + argumentCharacters(message['function_call'])
}

/** A block of an Anthropic message. */
export function blockCharacters(value: unknown): number {
  const block = asObject(value)
  if (block === undefined) return 0
  const input = asObject(block['input'])
  const inputCharacters = input === undefined || Object.keys(input).length === 0 ? 0 : characters(JSON.stringify(input))
  return charactersIn(block['text']) + charactersIn(block['thinking']) + inputCharacters
}

/** An item of a Responses answer: a message, a call, or reasoning. */
export function itemCharacters(value: unknown): number {
  const item = asObject(value)
  if (item === undefined) return 0
  let sum = charactersIn(item['arguments']) + charactersIn(item['input'])
  for (const part of [...asList(item['content']), ...asList(item['summary'])]) {
    sum += charactersIn(asObject(part)?.['text']) + charactersIn(asObject(part)?.['refusal'])
  }
  return sum
}

function contentCharacters(content: unknown): number {
  const text = asText(content)
  if (text !== undefined) return characters(text)
  let sum = 0
  for (const part of asList(content)) sum += charactersIn(asObject(part)?.['text'])
  return sum
}

function argumentCharacters(call: unknown): number {
  return charactersIn(asObject(call)?.['arguments'])
}
