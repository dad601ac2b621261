import type { RequestFacts } from '../costs/cost.ts'
import type { CallerVerdict } from '../request/caller.ts'
import type { WaitingLines } from './waiting-lines.ts'

/** Options of a decision. They are not kept after the call, so one object can be used for many decisions. */
export interface OpenOptions {
  /** Adds descriptor values to the decision. This costs time and is for operators only. */
  readonly withDescriptors?: boolean | undefined
  /** How much the request takes from rules that count requests, instead of one. */
  readonly given?: number | undefined
  /** Whether the caller settles what is taken even if no body is read. */
  readonly isSettledLater?: boolean | undefined
  /** Decides in the same way but takes nothing, for operators who ask what would happen. */
  readonly looks?: boolean | undefined
  /** Who sends the request, if the one who asks knows it: then no credential is read. */
  readonly caller?: CallerVerdict | undefined
  /** The requests that wait; undefined if none can. */
  readonly lines?: WaitingLines | undefined
}

/** 'must' if an enforcing rule needs the body; 'may' if only shadow rules do, which must not change a response. */
export type BodyNeed = 'must' | 'may' | 'no'

/** Facts read from the body; 'repeated_descriptor' if it states one of them twice, so that it can be read in more than one way. */
export type BodyFacts = RequestFacts['body'] | 'repeated_descriptor'

/** Facts read from the body, or 'unread' if it may never have been read. */
export type StreamBody = BodyFacts | 'unread'

/** Facts known at the time of the decision. */
export interface DecideOptions {
  /** Facts from the body, if it was read. The decision then has a reservation to settle. */
  readonly body?: BodyFacts
  /** The clock's time, if the caller has already read it. */
  readonly nowMs?: number | undefined
}

export const NO_OPTIONS: OpenOptions & DecideOptions = {
  withDescriptors: false,
  given: undefined,
  isSettledLater: false,
  looks: false,
  caller: undefined,
  lines: undefined,
  body: undefined,
  nowMs: undefined,
}

/** Digests a caller's values to 16 hexadecimal digits; equal values have equal digests. */
export type CallerDigest = (values: readonly string[]) => string
