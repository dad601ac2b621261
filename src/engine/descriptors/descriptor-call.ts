import { checkedGiven } from '../../costs/request-costs.ts'
import type { PlanRule } from '../../policy/plan.ts'
import type { StatedLimit } from '../../policy/stated-limit.ts'
import type { Decision } from '../decision.ts'

/** A call of the rate limit service, which asks whether all of its descriptors may be charged. */
export interface LimitCall {
  readonly domain: string
  readonly descriptors: readonly LimitDescriptor[]
}

/** Whom to charge, and how much. */
export interface LimitDescriptor {
  /** Sorted and unique, as made by `descriptorOf`. */
  readonly names: readonly string[]
  /** In the order of the names. */
  readonly values: readonly string[]
  /** A whole number. 0 takes nothing and asks whether one hit would pass. */
  readonly hits: number
  /** Whether the hits are given back instead of taken. */
  readonly isGivenBack: boolean
}

export interface LimitResult {
  readonly decision: Decision
  /** One for each descriptor, in the order of the call; none if the decision is a refusal. */
  readonly statuses: readonly DescriptorStatus[]
}

export interface DescriptorStatus {
  readonly isOver: boolean
  /** The rule that is over its limit, or else the most constrained one; undefined if none limits the descriptor. */
  readonly rule: PlanRule | undefined
  /** Limit of the rule; undefined for a block. */
  readonly stated: StatedLimit | undefined
  /** Whole hits; Infinity if a rule makes the descriptor unlimited. */
  readonly remaining: number
  /** Time until it would pass if it is over its limit, else until the limit is full again. */
  readonly resetMs: number
}

/**
 * Makes a descriptor of entries in any order; both lists are changed in place. The second entry with the same key is named `<key>#2`, and so on. Returns
 * undefined if an entry already has such a name, so that two names would be equal.
 */
export function descriptorOf(keys: string[], values: string[], hits: number, isGivenBack: boolean): LimitDescriptor | undefined {
  if (keys.length > 1) {
    sortEntries(keys, values)
    if (hasRepeats(keys)) {
      numberRepeats(keys)
      sortEntries(keys, values)
      if (hasRepeats(keys)) return undefined
    }
  }
  return { names: keys, values, hits, isGivenBack }
}

/** Sorts by key with a stable insertion sort, since descriptors have few entries. */
function sortEntries(keys: string[], values: string[]): void {
  for (let i = 1; i < keys.length; i++) {
    const key = keys[i]!
    const value = values[i]!
    let at = i
    for (; at > 0 && keys[at - 1]! > key; at--) {
      keys[at] = keys[at - 1]!
      values[at] = values[at - 1]!
    }
    keys[at] = key
    values[at] = value
  }
}

function hasRepeats(sorted: readonly string[]): boolean {
  for (let i = 1; i < sorted.length; i++) if (sorted[i] === sorted[i - 1]) return true
  return false
}

function numberRepeats(sorted: string[]): void {
  let count = 1
  for (let i = 1, previous = sorted[0]!; i < sorted.length; i++) {
    const key = sorted[i]!
    count = key === previous ? count + 1 : 1
    if (count > 1) sorted[i] = `${key}#${count}`
    previous = key
  }
}

/** A call of the rate limit service as a plain object. */
export interface PlainLimitCall {
  readonly domain: string
  readonly descriptors: readonly PlainDescriptor[]
}

/** Whom to charge, and how much. */
export interface PlainDescriptor {
  /** An object, or a list of pairs if a key occurs more than once. */
  readonly entries: Readonly<Record<string, string>> | readonly (readonly [key: string, value: string])[]
  /** 1 by default. 0 takes nothing and asks whether one hit would pass. */
  readonly hits?: number
  /** Whether the hits are given back instead of taken. */
  readonly isGivenBack?: boolean
}

/** Throws a RangeError if hits are not an amount that can be taken, or if two entries get the same name. */
export function limitCallOf({ domain, descriptors }: PlainLimitCall): LimitCall {
  return { domain, descriptors: descriptors.map(plainDescriptor) }
}

function plainDescriptor({ entries, hits = 1, isGivenBack = false }: PlainDescriptor): LimitDescriptor {
  const pairs = Array.isArray(entries) ? (entries as readonly (readonly [string, string])[]) : Object.entries(entries)
  const keys = pairs.map(([key]) => key)
  const found = descriptorOf(
    keys,
    pairs.map(([, value]) => value),
    checkedGiven(hits, 'hits'),
    isGivenBack,
  )
  if (found === undefined) throw new RangeError(`entries: expected each name once, got ${keys.join(', ')}`)
  return found
}
