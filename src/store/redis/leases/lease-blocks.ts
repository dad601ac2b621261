import type { SharedTable } from '../../shared-table.ts'

/** In the last two bits of a record's tag: what was used of a key. Its blocks and its note have other bits there. */
export const USE = 0

/** A block of leased tokens, where its key's records are: its tag, and when it ends, which no other block of the key does. */
export interface BlockPlace {
  readonly set: number
  readonly blockLow: number
  readonly high: number
  readonly endMs: number
}

/** Puts a token back into the block that it came from. Returns false where that is over or forgotten. Under the lock, as below. */
export function putTokenBack(table: SharedTable, { set, blockLow, high, endMs }: BlockPlace, nowMs: number): boolean {
  const slot = table.find(set, blockLow, high)
  if (slot < 0 || table.at(slot) !== endMs || nowMs >= endMs) return false
  table.write(slot, table.level(slot) + 1, endMs, table.size(slot), table.rate(slot))
  return true
}

/** Takes out what is left of a block and returns how much that is. It does not count as used. */
export function takeOut(table: SharedTable, { set, blockLow, high, endMs }: BlockPlace): number {
  const slot = table.find(set, blockLow, high)
  if (slot < 0 || table.at(slot) !== endMs) return 0
  const left = table.level(slot)
  table.write(slot, 0, endMs, table.size(slot), table.rate(slot))
  const use = table.find(set, (blockLow & ~3) | USE, high)
  if (use >= 0) table.write(use, Math.max(0, table.level(use) - left), table.at(use), table.size(use), 0)
  return left
}
