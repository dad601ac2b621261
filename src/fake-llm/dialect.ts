import type { Asked } from './call.ts'
import type { FakeLlmOptions } from './flags.ts'

/** How one provider's endpoint formats completions. */
export interface FakeDialect {
  /** Returns the response in one piece. */
  whole(asked: Asked, options: FakeLlmOptions): FakeResponse
  /** Undefined for an endpoint without streams. */
  readonly stream?: StreamDialect
  /** Tokens of the prompt, as its usage counts them; 0 for an endpoint that charges nothing. */
  promptTokens(asked: Asked): number
  errorBody(kind: ErrorKind, message: string): object
}

export interface StreamDialect {
  events(asked: Asked, options: FakeLlmOptions): Iterable<StreamEvent>
  /** Returns the event that reports a failure after this many events. */
  errorEvent(sequence: number, message: string): StreamEvent
}

export type ErrorKind = 'bad-request' | 'rate-limited' | 'broken'

export interface FakeResponse {
  readonly body: object
  /** Completion tokens in the response, over all choices. */
  readonly tokens: number
}

export interface StreamEvent {
  readonly name?: string
  readonly data: object | '[DONE]'
  /** Completion tokens in the event. */
  readonly tokens: number
}

/** A fixed date, so that the same request gets the same response, byte for byte: 2026-01-01. */
export const CREATED_SECONDS = 1_767_225_600
