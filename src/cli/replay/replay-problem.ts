/** Why nothing can be replayed, as a sentence, perhaps with lines below it. */
export class ReplayProblem extends Error {
  readonly details: readonly string[]

  constructor(message: string, details: readonly string[] = []) {
    super(message)
    this.details = details
  }
}
