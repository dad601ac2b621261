import { type Asked, promptTokens } from './call.ts'
import type { FakeLlmOptions } from './flags.ts'

/** The model's output for a request, before a dialect formats it. */
export interface Completion {
  readonly model: string
  readonly promptTokens: number
  /** The part of the prompt tokens that was read from the cache. */
  readonly cachedTokens: number
  /** Tokens of each choice. */
  readonly tokens: number
  /** Whether the request allowed fewer tokens than the model generates. */
  readonly isCut: boolean
  readonly hasUsage: boolean
  readonly tokensPerEvent: number
}

/** Returns the same completion for the same request. */
export function complete(asked: Asked, options: FakeLlmOptions): Completion {
  const max =
    wholeNumberIn(asked['max_completion_tokens']) ?? wholeNumberIn(asked['max_output_tokens']) ?? wholeNumberIn(asked['max_tokens'])
  return completionOf(modelOf(asked), promptTokens(asked), max, options)
}

/** Returns a completion of a prompt with this many tokens, of at most `max` tokens. */
export function completionOf(model: string, prompt: number, max: number | undefined, options: FakeLlmOptions): Completion {
  const { tokens, hasUsage, cachedTokens, tokensPerEvent } = options
  return {
    model,
    promptTokens: prompt,
    cachedTokens: Math.min(cachedTokens, prompt),
    tokens: Math.min(tokens, max ?? tokens),
    isCut: max !== undefined && max < tokens,
    hasUsage,
    tokensPerEvent,
  }
}

export function modelOf({ model }: Asked): string {
  return typeof model === 'string' ? model : 'fake-llm'
}

/** Returns the text of a choice. Choices differ, so that a client that mixes them up is noticed. */
export function choiceText({ tokens }: Completion, choice = 0): string {
  return wordsFrom(choice, tokens)
}

export interface Piece {
  readonly tokens: number
  /** Returns the piece's text in one of the choices. */
  textOf(choice: number): string
}

/** Splits the completion into the pieces in which it is streamed. */
export function* piecesOf({ tokens, tokensPerEvent }: Completion): Generator<Piece> {
  for (let from = 0; from < tokens; from += tokensPerEvent) {
    const count = Math.min(tokensPerEvent, tokens - from)
    yield { tokens: count, textOf: (choice) => wordsFrom(choice + from, count) }
  }
}

export function wholeNumberIn(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined
}

// Each word has three letters and a space, so it is one token at four characters per token.
const WORDS =
  'the old fox saw the red hen sit far off and ran for her but the sly hen had one big dog who did not let any fox get our hen'.split(' ')

/** Returns this many tokens of text. The same position always gives the same word. */
export function wordsFrom(position: number, tokens: number): string {
  let text = ''
  for (let i = position; i < position + tokens; i++) text += `${WORDS[i % WORDS.length]} `
  return text
}
