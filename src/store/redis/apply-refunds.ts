import type { Charges } from '../charges.ts'
import type { EmbeddedStore } from '../embedded-store.ts'
import type { QueryCall } from './query-call.ts'

/**
 * Raises this process's own counts to what Redis had left, where hits were given back: maybe at another instance, and to what was taken here. A
 * right own count is never lower than that of the whole fleet. Call it before charging what the calls took.
 */
export function applyRefunds(calls: readonly QueryCall[], charges: Charges, local: EmbeddedStore, nowMs: number): void {
  for (const { rows, reply, action } of calls) {
    if (reply === undefined || reply.fits === 'other_window') continue
    const { wallMs, levels, leased, refunded } = reply
    const isTaken = reply.fits && action === 'take'
    for (const [i, { row, cost }] of rows.entries()) {
      if (refunded[i]! > 0) local.raiseRow(charges, row, isTaken ? levels[i]! + cost + leased[i]! : levels[i]!, nowMs, wallMs)
    }
  }
}
