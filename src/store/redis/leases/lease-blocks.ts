import type { SharedTable } from '../../shared-table.ts'

/** The last two bits in the tag of a record of use. Blocks and notes have other bits there. */
export const USE = 0

/** In place of a block's end: before all times. */
const ENDED = 0

/** Identifies a block of leased tokens: set and tag, and its end, which no other block of the key shares. */
export interface BlockPlace {
  readonly set: number
  readonly blockLow: number
  readonly high: number
  readonly endMs: number
}

/** Puts a token back into its block, under the lock. Returns false where the block has ended or was evicted. */
export function putTokenBack(table: SharedTable, { set, blockLow, high, endMs }: BlockPlace, nowMs: number): boolean {
  const slot = table.find(set, blockLow, high)
  if (slot < 0 || table.at(slot) !== endMs || nowMs >= endMs) return false
  table.write(slot, table.level(slot) + 1, endMs, table.size(slot), table.rate(slot))
  return true
}

/**
 * Empties a block, under the lock, and returns what was left. That does not count as used. With `isEnd`, no token can be put back after it, not
 * even by a thread that read the clock before the end.
 */
export function takeOut(table: SharedTable, { set, blockLow, high, endMs }: BlockPlace, isEnd: boolean): number {
  const slot = table.find(set, blockLow, high)
  if (slot < 0 || table.at(slot) !== endMs) return 0
  const left = table.level(slot)
  table.write(slot, 0, isEnd ? ENDED : endMs, table.size(slot), table.rate(slot))
  const use = table.find(set, (blockLow & ~3) | USE, high)
  if (use >= 0) table.write(use, Math.max(0, table.level(use) - left), table.at(use), table.size(use), 0)
  return left
}
