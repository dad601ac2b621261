import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FakeLlmOptions } from './flags.ts'
import type { ServedUsage } from './served-usage.ts'

/** A received request, and how it ended. */
export interface ReceivedRequest {
  readonly method: string
  readonly url: string
  /** Alternating names and values, as they were received. */
  readonly headers: readonly string[]
  /** Empty until the whole body has arrived. */
  readonly body: Buffer
  /** Whether the response was sent or never will be. */
  readonly isClosed: boolean
  /** Whether the client disconnected before the response was complete. */
  readonly isAborted: boolean
}

/** A request and its response in flight. */
export class FakeCall {
  readonly request: { -readonly [Name in keyof ReceivedRequest]: ReceivedRequest[Name] }
  readonly res: ServerResponse
  /** A copy of the options from when the request arrived. */
  readonly options: Readonly<FakeLlmOptions>
  /** Whether this side breaks the connection, so that its end does not count as an abort by the client. */
  isBreaking = false
  /** What is asked for, once that is known. */
  asked: { readonly model: string; readonly promptTokens: number } | undefined
  readonly #usage: ServedUsage | undefined
  #count: ((tokens: number) => void) | undefined
  readonly #closed = new AbortController()

  constructor(req: IncomingMessage, res: ServerResponse, options: FakeLlmOptions, usage?: ServedUsage) {
    this.#usage = usage
    this.request = {
      method: req.method!,
      url: req.url!,
      headers: req.rawHeaders,
      body: Buffer.alloc(0),
      isClosed: false,
      isAborted: false,
    }
    this.res = res
    this.options = { ...options }
    res.on('error', () => {}) // 'close' follows and is handled below
    res.on('close', () => {
      this.request.isClosed = true
      this.request.isAborted = !res.writableFinished && !this.isBreaking
      this.#closed.abort()
    })
  }

  /** Aborted when the response is closed; every wait for this call uses it. */
  get signal(): AbortSignal {
    return this.#closed.signal
  }

  /** Counts so many tokens that were sent, and with the first of them, or with 0, the prompt. */
  noteSent(tokens: number): void {
    if (this.asked === undefined) return
    this.#count ??= this.#usage?.begin(this.asked.model, this.asked.promptTokens)
    this.#count?.(tokens)
  }

  noteFailure(): void {
    this.#usage?.noteFailure(this.options.fail)
  }
}

/** A request's body, in which anything may be missing or have the wrong type. */
export type Asked = Readonly<Record<string, unknown>>

const CHARACTERS_PER_TOKEN = 4

/** Estimates the tokens of all text that the model is asked to read. Characters are code points. */
export function promptTokens({ messages, system, prompt, input, instructions }: Asked): number {
  return textTokens([messages, system, prompt, input, instructions])
}

/** Estimates the tokens of a text, a message, or a list of these. */
export function textTokens(value: unknown): number {
  return Math.ceil(countCharacters(value) / CHARACTERS_PER_TOKEN)
}

/**
 * Messages contain `content`, Gemini's contain `parts`, and parts contain `text`. A number is a whole token, because some prompts are already
 * tokenised.
 */
function countCharacters(value: unknown): number {
  if (typeof value === 'string') return codePoints(value)
  if (typeof value === 'number') return CHARACTERS_PER_TOKEN
  if (Array.isArray(value)) return value.reduce<number>((sum, member) => sum + countCharacters(member), 0)
  if (typeof value !== 'object' || value === null) return 0
  const { content, parts, text } = value as Asked
  return countCharacters(content) + countCharacters(parts) + countCharacters(text)
}

function codePoints(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}
