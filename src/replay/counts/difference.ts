import type { CallerDigest } from '../../engine/caller-digest.ts'
import type { PlanRule } from '../../policy/plan.ts'
import type { ShownCaller } from '../../top/shown-caller.ts'
import { CallerCounts } from './caller-counts.ts'

/** A request's verdict by one bundle. */
export interface ReplayVerdict {
  readonly action: 'allow' | 'reject' | 'refuse'
  /** The one that rejected, and the values of its limit keys. */
  readonly rule: PlanRule | undefined
  readonly values: readonly string[]
}

export interface ChangedCaller extends ShownCaller {
  newlyRejected: number
  newlyAllowed: number
}

/** The requests that one bundle allows and the other rejects. */
export class Difference {
  newlyRejected = 0
  newlyAllowed = 0
  readonly #rejected: CallerCounts
  readonly #allowed: CallerCounts

  constructor(hashKey: readonly [number, number], callerDigest: CallerDigest) {
    this.#rejected = new CallerCounts(hashKey, callerDigest)
    this.#allowed = new CallerCounts(hashKey, callerDigest)
  }

  newlyReject({ rule, values }: ReplayVerdict): void {
    this.newlyRejected++
    this.#rejected.add(rule!, values)
  }

  /** The verdict of the bundle that rejects. */
  newlyAllow({ rule, values }: ReplayVerdict): void {
    this.newlyAllowed++
    this.#allowed.add(rule!, values)
  }

  get maxError(): number {
    return Math.max(this.#rejected.maxError, this.#allowed.maxError)
  }

  /** By the rule that rejected, in either bundle; those with the largest change first. */
  callers(): ChangedCaller[] {
    const byId = new Map<string, ChangedCaller>()
    for (const { id, count, ...caller } of this.#rejected.list()) byId.set(id, { ...caller, newlyRejected: count, newlyAllowed: 0 })
    for (const { id, count, ...caller } of this.#allowed.list()) {
      const known = byId.get(id)
      if (known === undefined) byId.set(id, { ...caller, newlyRejected: 0, newlyAllowed: count })
      else known.newlyAllowed = count
    }
    return [...byId.values()].sort((a, b) => b.newlyRejected + b.newlyAllowed - a.newlyRejected - a.newlyAllowed)
  }
}
