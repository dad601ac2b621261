import type { Counter } from '../charges.ts'

/** A counter that a fleet shares. */
export interface SharedCounter extends Counter {
  /** Its identity as a subject begins with it. */
  readonly identityWords: Int32Array
  /** Takes are never settled. */
  readonly isLeasable: boolean
  readonly sinceMs: number
}
