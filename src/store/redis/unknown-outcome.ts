import { LinkError } from './link/link-error.ts'

export interface UnknownOutcomeListener {
  /** A call may or may not have been done. It is not sent again. */
  onUnknownOutcome(what: 'take' | 'give_back' | 'settlement' | 'renewal' | 'lease'): void
}

/** Whether a call that failed may have been done. */
export function isOutcomeUnknown(error: unknown): boolean {
  return !(error instanceof LinkError) || error.outcome === 'unknown'
}
