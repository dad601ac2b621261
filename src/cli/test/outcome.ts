import type { FoundCase } from '../../cases/read-cases.ts'
import type { CaseFailure } from '../../cases/run-case.ts'

/** A case that was run. */
export interface TestOutcome {
  readonly file: string
  readonly found: FoundCase
  /** Undefined: it holds. */
  readonly failure: CaseFailure | undefined
}

/** Prints outcomes as they come. */
export interface Reporter {
  begin(count: number): string
  describe(outcome: TestOutcome): string
  end(): string
  /** Nothing could be run. */
  giveUp(): string
}
