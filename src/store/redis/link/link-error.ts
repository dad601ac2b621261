/**
 * What is known of a command that got no answer to use.
 * `not_sent`: it never left. `refused`: Redis answered with an error, so nothing was done. `unknown`: it may have been done.
 */
export type Fate = 'not_sent' | 'refused' | 'unknown'

/** A call to Redis that failed. `code` is Redis's own word (LOADING, OOM …), or one of ours in lower case. */
export class LinkError extends Error {
  override readonly name = 'LinkError'
  readonly fate: Fate
  readonly code: string

  constructor(fate: Fate, code: string, message: string) {
    super(message)
    this.fate = fate
    this.code = code
  }
}
