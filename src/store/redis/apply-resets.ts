import type { Charges } from '../charges.ts'
import type { EmbeddedStore } from '../embedded-store.ts'
import type { QueryCall } from './query-call.ts'

/**
 * Forgets this process's own counts of counters that were reset, and calls `onReset` for each reset that was not known here yet. Call it before
 * charging what the calls took: that was taken after the reset.
 */
export function applyResets(
  calls: readonly QueryCall[],
  charges: Charges,
  local: EmbeddedStore,
  nowMs: number,
  onReset: (charges: Charges, row: number) => void,
): void {
  for (const { rows, reply } of calls) {
    if (reply === undefined || reply.fits === 'other_window') continue
    const { wallMs, resetsMs } = reply
    for (const [i, { row, knownResetMs }] of rows.entries()) {
      const resetMs = resetsMs[i]!
      if (resetMs > knownResetMs && local.resetRow(charges, row, resetMs, nowMs, wallMs)) onReset(charges, row)
    }
  }
}
