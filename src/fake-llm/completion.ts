import type { FakeLlmOptions } from './options.ts'
import { type Asked, promptTokens } from './prompt.ts'
import { wordsFrom } from './words.ts'

/** What the model says to a request, before any dialect puts it into words of its own. */
export interface Completion {
  readonly model: string
  readonly promptTokens: number
  /** Of each choice. */
  readonly tokens: number
  /** The request allowed less than the model had to say. */
  readonly isCut: boolean
  readonly hasUsage: boolean
  readonly tokensPerEvent: number
}

/** The same request gives the same completion. */
export function complete(asked: Asked, { tokens, hasUsage, tokensPerEvent }: FakeLlmOptions): Completion {
  const max = wholeNumber(asked['max_completion_tokens']) ?? wholeNumber(asked['max_output_tokens']) ?? wholeNumber(asked['max_tokens'])
  return {
    model: modelOf(asked),
    promptTokens: promptTokens(asked),
    tokens: Math.min(tokens, max ?? tokens),
    isCut: max !== undefined && max < tokens,
    hasUsage,
    tokensPerEvent,
  }
}

export function modelOf({ model }: Asked): string {
  return typeof model === 'string' ? model : 'fake-llm'
}

/** Choices differ, so that a client which mixes them up is found out. */
export function choiceText({ tokens }: Completion, choice = 0): string {
  return wordsFrom(choice, tokens)
}

export interface Piece {
  readonly tokens: number
  /** What the piece says in one of the choices. */
  textOf(choice: number): string
}

/** The completion as a stream brings it. */
export function* piecesOf({ tokens, tokensPerEvent }: Completion): Generator<Piece> {
  for (let from = 0; from < tokens; from += tokensPerEvent) {
    const count = Math.min(tokensPerEvent, tokens - from)
    yield { tokens: count, textOf: (choice) => wordsFrom(choice + from, count) }
  }
}

export function wholeNumber(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined
}
