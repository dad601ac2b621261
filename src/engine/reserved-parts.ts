import type { Taken } from '../store/charges.ts'

/** What a reservation took at one time. */
export interface ReservedPart {
  /** Amount taken from each of the rule's counters, in their unit. */
  readonly amount: number
  /** Identifies the window and the counters that were taken from, which a settlement goes back to. */
  readonly taken: Taken
}

const MAX_PARTS = 16

/**
 * The parts of a reservation that grows, oldest first. Usage is charged to the oldest part first, and what exceeds all of them to the last. Each part is
 * settled where and when it was taken: in its window, in its instance's own counters or those of the fleet, and not at all if these were reset since.
 */
export class ReservedParts {
  readonly #parts: ReservedPart[]
  /** Sum of the parts that were dropped, which count as used. */
  #spent = 0
  isSettled = false
  /** When the last part was added, on the monotonic clock. */
  changedMs = Number.NEGATIVE_INFINITY

  constructor(first: ReservedPart) {
    this.#parts = [first]
  }

  get all(): readonly ReservedPart[] {
    return this.#parts
  }

  /** What was taken in all. */
  get amount(): number {
    let sum = this.#spent
    for (const { amount } of this.#parts) sum += amount
    return sum
  }

  /**
   * Adds the newest part. If that is one too many, the two oldest that were taken from the same window become one. Such a part counts as taken when the older
   * one was: if the counter was reset between the two, neither is given back. If no two parts share a window, the oldest is dropped and returned: by then it
   * is used up, and it stays as it was taken.
   */
  add(part: ReservedPart, isSameWindow: (a: Taken, b: Taken) => boolean): ReservedPart | undefined {
    const parts = this.#parts
    parts.push(part)
    if (parts.length <= MAX_PARTS) return undefined
    for (let i = 0; i < parts.length - 1; i++) {
      const { amount, taken } = parts[i]!
      const same = parts.findIndex((other, j) => j > i && isSameWindow(taken, other.taken))
      // The last one stays by itself, because what exceeds the reservation is charged to it.
      if (same < 0 || same === parts.length - 1) continue
      parts[i] = { amount: amount + parts[same]!.amount, taken }
      parts.splice(same, 1)
      return undefined
    }
    const dropped = parts.shift()!
    this.#spent += dropped.amount
    return dropped
  }

  /** Returns what each part gives back if `amount` was used in all, or is charged if that is below zero. Parts that stay as they were taken are left out. */
  *corrections(amount: number): Generator<readonly [part: ReservedPart, back: number]> {
    for (const [part, used] of this.charged(amount)) if (used !== part.amount) yield [part, part.amount - used]
  }

  /** Returns what each part is charged if `amount` was used in all. Parts that were dropped are left out. */
  *charged(amount: number): Generator<readonly [part: ReservedPart, used: number]> {
    const last = this.#parts.length - 1
    let unpaid = Math.max(0, amount - this.#spent)
    for (const [i, part] of this.#parts.entries()) {
      const used = i === last ? unpaid : Math.min(unpaid, part.amount)
      unpaid -= used
      yield [part, used]
    }
  }

  /** What the parts that were dropped are charged. */
  get spent(): number {
    return this.#spent
  }
}

/** Returns when and where each part of `amount` was taken; undefined for what was dropped. Parts that are charged nothing are left out, unless all are. */
export function* chargedParts(
  { taken, growth }: { readonly taken: Taken; readonly growth: ReservedParts | undefined },
  amount: number,
): Generator<readonly [taken: Taken | undefined, charged: number]> {
  if (growth === undefined || amount === 0) return yield [taken, amount]
  if (growth.spent > 0) yield [undefined, growth.spent]
  for (const [part, used] of growth.charged(amount)) if (used > 0) yield [part.taken, used]
}
