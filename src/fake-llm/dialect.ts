import type { FakeLlmOptions } from './options.ts'
import type { Asked } from './prompt.ts'

/** How one provider's endpoint writes what the model says. */
export interface Dialect {
  /** The answer in one piece. */
  answer(asked: Asked, options: FakeLlmOptions): Answer
  /** An endpoint without streams has none. */
  readonly stream?: StreamDialect
  errorBody(kind: ErrorKind, message: string): object
}

export interface StreamDialect {
  events(asked: Asked, options: FakeLlmOptions): Iterable<StreamEvent>
  /** What is said when something breaks after so many events. */
  errorEvent(sequence: number, message: string): StreamEvent
}

export type ErrorKind = 'bad-request' | 'broken'

export interface Answer {
  readonly body: object
  /** Completion tokens in it, over all choices. */
  readonly tokens: number
}

export interface StreamEvent {
  readonly name?: string
  readonly data: object | '[DONE]'
  /** Completion tokens that it carries. */
  readonly tokens: number
}

/** A date that stays: the same request gets the same answer, byte for byte. 2026-01-01. */
export const CREATED_SECONDS = 1_767_225_600
