import type { ReservationName } from './reservation-name.ts'

/**
 * 'marked': it was not settled before, and counts as settled from now on. 'lost': it can no longer be told whether it was. 'unavailable': the
 * store cannot be asked, and nothing was marked; 'unknown': it may have been.
 */
export type MarkOutcome = 'marked' | 'already' | 'lost' | 'unavailable' | 'unknown'

/** Which reservations are settled: each is marked once. */
export interface SettledMarks {
  mark(name: ReservationName, issuedMs: number): MarkOutcome | Promise<MarkOutcome>
}
