import type { RequestFacts } from '../costs/cost.ts'

/** Options of a decision. Not kept after the call, so one object can be used for many decisions. */
export interface OpenOptions {
  /** Adds the descriptor values to the decision. They cost time, and are for operators only. */
  readonly withDescriptors?: boolean | undefined
  /** How much the request takes from rules that count requests, in place of one. */
  readonly given?: number | undefined
  /** The caller settles what is taken, even if no body is read. */
  readonly isSettledLater?: boolean | undefined
  /** Decides in the same way and takes nothing: for operators who ask what would happen. */
  readonly looks?: boolean | undefined
}

/** 'must' where an enforcing rule needs the body, 'may' where only shadow rules do, which must not change a response. */
export type BodyNeed = 'must' | 'may' | 'no'

/** What the body says; 'repeated_descriptor' where it says it twice, and so in more than one way. */
export type BodyFacts = RequestFacts['body'] | 'repeated_descriptor'

/** The same where it may never have been read: then nobody knows what it says. */
export type StreamBody = BodyFacts | 'unread'

/** Facts known at the time of the decision. */
export interface DecideOptions {
  /** Read from the body, if it was read: then the decision has a reservation to settle. */
  readonly body?: BodyFacts
  /** The clock's time, where the caller has read it already. */
  readonly nowMs?: number | undefined
}

export const NO_OPTIONS: OpenOptions & DecideOptions = {
  withDescriptors: false,
  given: undefined,
  isSettledLater: false,
  looks: false,
  body: undefined,
  nowMs: undefined,
}

/** Names a caller by its values: 16 hexadecimal digits, the same for the same values. */
export type CallerDigest = (values: readonly string[]) => string
