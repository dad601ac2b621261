/** The window. Of its oldest second all bytes count, so it may be up to a second longer. */
export const RECENT_MS = 5000
const SLOT_MS = 1000
const SLOTS = RECENT_MS / SLOT_MS + 1

/** How many bytes came in the last five seconds. */
export class RecentBytes {
  readonly #counts = [0, 0, 0, 0, 0, 0]
  #slot: number

  constructor(nowMs: number) {
    this.#slot = Math.floor(nowMs / SLOT_MS)
  }

  add(bytes: number, nowMs: number): void {
    this.#moveTo(nowMs)
    this.#counts[this.#slot % SLOTS]! += bytes
  }

  sum(nowMs: number): number {
    this.#moveTo(nowMs)
    let sum = 0
    for (const count of this.#counts) sum += count
    return sum
  }

  #moveTo(nowMs: number): void {
    const slot = Math.floor(nowMs / SLOT_MS)
    const passed = Math.min(slot - this.#slot, SLOTS)
    for (let i = 0; i < passed; i++) this.#counts[(slot - i) % SLOTS] = 0
    if (passed > 0) this.#slot = slot
  }
}
