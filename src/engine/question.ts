import type { RequestFacts } from '../costs/cost.ts'

/** What may be said beside a request. The engine has read it when a call returns, so one object can serve many questions. */
export interface OpenOptions {
  /** Adds the descriptor values to the decision. They cost, and are nobody's business but an operator's. */
  readonly withDescriptors?: boolean | undefined
  /** How much the request takes from rules that count requests, in place of one. */
  readonly given?: number | undefined
}

/** What is known when a request is decided. */
export interface DecideOptions {
  /** What the body says, if it was read: then the decision has a reservation to settle. */
  readonly body?: RequestFacts['body']
  /** The clock's time, where the caller has read it already. */
  readonly nowMs?: number | undefined
}

export const NO_OPTIONS: OpenOptions & DecideOptions = { withDescriptors: false, given: undefined, body: undefined, nowMs: undefined }
