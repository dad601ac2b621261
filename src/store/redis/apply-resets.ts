import type { Charges } from '../charges.ts'
import type { EmbeddedStore } from '../embedded-store.ts'
import type { QuestionCall } from './question-call.ts'

/**
 * Forgets what this process has counted of counters that were reset, and tells `onReset` the rows of those that nobody here knew of yet. To
 * be called before what the calls took is charged, for that was taken after the reset.
 */
export function applyResets(
  calls: readonly QuestionCall[],
  charges: Charges,
  local: EmbeddedStore,
  nowMs: number,
  onReset: (charges: Charges, row: number) => void,
): void {
  for (const { rows, answer } of calls) {
    if (answer === undefined || answer.fits === 'other_window') continue
    const { wallMs, resetsMs } = answer
    for (const [i, { row, knownResetMs }] of rows.entries()) {
      const resetMs = resetsMs[i]!
      if (resetMs > knownResetMs && local.resetRow(charges, row, resetMs, nowMs, wallMs)) onReset(charges, row)
    }
  }
}
