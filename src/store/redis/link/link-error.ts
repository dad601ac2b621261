/**
 * What became of a command that failed. `not_sent`: it was never sent. `refused`: Redis replied with an error, so nothing was done.
 * `unknown`: it may have been done.
 */
export type CallOutcome = 'not_sent' | 'refused' | 'unknown'

/** A call to Redis that failed. `code` is Redis's own word (LOADING, OOM …), or one of ours in lower case. */
export class LinkError extends Error {
  override readonly name = 'LinkError'
  readonly outcome: CallOutcome
  readonly code: string

  constructor(outcome: CallOutcome, code: string, message: string) {
    super(message)
    this.outcome = outcome
    this.code = code
  }
}
