import { LinkError } from './link/link-error.ts'

/** What may become of a call besides an answer. */
export interface DoubtListener {
  /** Nobody knows whether it was done, and it is not tried again. */
  onDoubt(what: 'take' | 'give_back' | 'settlement' | 'lease'): void
}

/** It may have been done. */
export function isInDoubt(error: unknown): boolean {
  return !(error instanceof LinkError) || error.outcome === 'unknown'
}
